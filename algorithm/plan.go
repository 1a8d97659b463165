package algorithm

import (
	"time"

	"github.com/headgate/headgate"
)

// A State is the state of one key, as 64-bit words. A new key has the empty State. A step may change the words of the
// state it is given, and may return a longer one; the caller must use only the state returned.
//
// A State records the time of the latest decision that changed it, and the settings of its limit that its words depend
// on. Only a plan with the same settings can use it: [Plan.Owns] reports this, and [Plan.Convert] converts the State
// for any other plan.
type State []int64

// steps implements an algorithm. now is in microseconds. n is in units: at least 1 (decide also accepts 0) and, except
// in charge, at most the plan's capacity. The type counting implements this interface for algorithms whose state is a
// few numbers.
type steps interface {
	// decide returns the decision that take would make, and changes nothing.
	decide(p *Plan, s State, now, n int64) headgate.Decision
	// take takes n units if they are allowed. Only concurrency uses lease, the ID of the slot. TakeInto does not call it
	// for the algorithms that embed direct.
	take(p *Plan, s State, now, n int64, lease uint64) (State, headgate.Decision)
	// charge takes n units, allowed or not, up to the plan's largest debt.
	charge(p *Plan, s State, now, n int64) (State, headgate.Decision)
	// give gives back n units that were taken with r.
	give(p *Plan, s State, now, n int64, r headgate.Receipt) State

	// kind returns the kind of the algorithm's states.
	kind() Kind
	// words returns the length of a new state, and by how many words one step can make a state longer.
	words(p *Plan) (initial, growth int)
	// prepare sets the fields of a new plan that only this algorithm uses. It is not called for buckets.
	prepare(p *Plan)
	// restore sets the same fields in a plan that is restored from a state. The caller has set the kind, the head and, as
	// period, the number in the head.
	restore(p *Plan, s State)
	// consumed implements [State.Consumed].
	consumed(p *Plan, s State, now int64) (at, units int64)
	// newState implements [Plan.NewState].
	newState(p *Plan, at, units int64) State

	// luaArgs implements [Plan.LuaArgs].
	luaArgs(p *Plan, offset int64, lease uint64) (a, b int64)
	// lua returns the Lua files that the algorithm's script includes.
	lua() luaIncludes
}

// A Kind is the layout of a state. Stores keep one state for each key, whatever its kind, and convert it when the limit
// changes. Only the leases of concurrency are stored separately, because they do not count as consumption.
type Kind uint8

// The kinds of state. All but KindLeases begin with a head, which holds the kind and one setting of the limit.
const (
	KindBucket         Kind = iota // head and rate, a Pair: token-bucket, gcra, leaky-bucket
	KindFixedWindow                // head, a Pair: fixed-window
	KindSlidingWindow              // head, latest, current, previous: sliding-window
	KindSlidingBuckets             // head, latest, counts…: sliding-buckets
	KindSlidingLog                 // head, units, latest, first, (time, units)…: sliding-log
	KindLeases                     // latest, (expiry, units, lease)…: concurrency
	KindCounters                   // head, latest, counters…: algorithms without a kind of their own
	Kinds                          // the number of kinds above

	// KindCustom is the kind of every [Custom] algorithm: head, latest, units, end, numbers….
	KindCustom = Kinds
)

//go:generate go run ../internal/algorithmlist all.go

// kinds holds the kind of each algorithm.
var kinds = func() (kinds [len(all)]Kind) {
	for a, steps := range all {
		kinds[a] = steps.kind()
	}
	return kinds
}()

// A Plan is a validated limit with the numbers that its steps need. It is safe for concurrent use, except for Set.
type Plan struct {
	limit       headgate.Limit
	kind        Kind
	steps       steps
	capacity    int64 // the largest number of units that can be taken at once
	maxConsumed int64 // the largest number of consumed units: the capacity and the largest debt
	head        int64 // head of its states
	rate        rate
	period      int64 // µs; the TTL for concurrency
	buckets     int64
	width       int64 // µs of one sub-bucket
}

// NewPlan returns the plan of a limit. It returns the error of limit.Validate.
func NewPlan(limit headgate.Limit) (*Plan, error) {
	p := &Plan{}
	if err := p.Set(limit); err != nil {
		return nil, err
	}
	return p, nil
}

// Set makes p the plan of another limit. If limit.Validate returns an error, Set returns it and leaves p
// unchanged.
func (p *Plan) Set(limit headgate.Limit) error {
	if !clearlyValid(&limit) {
		if err := limit.Validate(); err != nil {
			return err
		}
	}
	*p = Plan{
		limit:    limit,
		kind:     kinds[limit.Algorithm],
		steps:    all[limit.Algorithm],
		capacity: limit.Capacity(),
		period:   limit.Period.Microseconds(),
	}
	p.maxConsumed = p.capacity * (1 + headgate.MaxDebt)
	if p.kind != KindBucket {
		if p.steps.prepare(p); p.kind == KindLeases {
			return nil
		}
	}
	p.rate = newRate(limit.Count, p.period)
	p.head = p.newHead()
	return nil
}

// clearlyValid returns true for most valid limits and for no invalid limit. It is faster than Validate. This matters if
// each of a million clients has its own limit, because the plan is then rarely in a cache and Set runs in most
// decisions.
func clearlyValid(l *headgate.Limit) bool {
	const maxUnits, maxPeriod, maxRefill = 1 << 20, 24 * time.Hour, 1 << 49 // see headgate.Limit.Validate
	return l.Algorithm <= headgate.GCRA && uint64(l.Count-1) < maxUnits && uint64(l.Burst) <= maxUnits &&
		l.Period > 0 && l.Period <= maxPeriod && l.Period%time.Microsecond == 0 &&
		l.Burst*l.Period.Microseconds() <= maxRefill &&
		l.Buckets == 0 && l.TTL == 0 && !l.Staggered
}

// Limit returns the limit of the plan.
func (p *Plan) Limit() headgate.Limit { return p.limit }

// Capacity returns the largest number of units that can be taken at once.
func (p *Plan) Capacity() int64 { return p.capacity }

// Rate returns how many units drain in how many microseconds, in lowest terms. Concurrency has no rate.
func (p *Plan) Rate() (units, micros int64) { return p.rate.units, p.rate.micros }

// Kind returns the kind of the plan's states.
func (p *Plan) Kind() Kind { return p.kind }

// Words returns the length of a new state. States of sliding-log and concurrency grow with their entries.
func (p *Plan) Words() int {
	initial, _ := p.steps.words(p)
	return initial
}

// Growth returns by how many words one step can make a state longer.
func (p *Plan) Growth() int {
	_, growth := p.steps.words(p)
	return growth
}

// Life returns how many µs after its Time a Pair with the given units still affects decisions. After that, it has the
// same effect as the zero Pair.
func (p *Plan) Life(units int64) int64 {
	if p.kind == KindBucket {
		return p.rate.timeFor(units)
	}
	return p.period
}

// Decide returns the decision that Take would make, and changes nothing.
func (p *Plan) Decide(s State, now, n int64) headgate.Decision {
	if n > p.capacity {
		return p.denyForever(p.steps.decide(p, s, now, 0))
	}
	return p.steps.decide(p, s, now, n)
}

// Peek returns the decision that Peek of a [headgate.Limiter] returns: Allowed, RetryAfter and Delay are those for n
// units, and the other fields describe the state if nothing is taken.
func (p *Plan) Peek(s State, now, n int64) headgate.Decision {
	return peekDecision(p.Decide(s, now, 0), p.Decide(s, now, n))
}

// peekDecision combines the decision for cost 0 with that for the real cost, as Peek describes.
func peekDecision(forZero, forCost headgate.Decision) headgate.Decision {
	d := forZero
	d.Allowed, d.RetryAfter, d.Delay = forCost.Allowed, forCost.RetryAfter, forCost.Delay
	return d
}

// Take takes n units if that is allowed. With n = 0 it only returns the decision. lease is the ID for a slot that is
// taken under a concurrency limit; other algorithms ignore it.
func (p *Plan) Take(s State, now, n int64, lease uint64) (after State, d headgate.Decision) {
	after = p.TakeInto(&d, s, now, n, lease)
	return after, d
}

// TakeInto does the same as Take, but writes the decision to *d, which avoids copies.
func (p *Plan) TakeInto(d *headgate.Decision, s State, now, n int64, lease uint64) State {
	if n == 0 || n > p.capacity {
		*d = p.Decide(s, now, n)
		return s
	}
	*d = headgate.Decision{}
	switch p.kind { // not by the interface, through which d would escape to the heap
	case KindBucket, KindFixedWindow:
		return pairSteps{}.takeInto(d, p, s, now, n)
	case KindSlidingWindow:
		return slidingWindow{}.takeInto(d, p, s, now, n)
	case KindSlidingBuckets:
		return slidingBuckets{}.takeInto(d, p, s, now, n)
	case KindSlidingLog:
		return slidingLog{}.takeInto(d, p, s, now, n)
	case KindLeases:
		return concurrency{}.takeInto(d, p, s, now, n, lease)
	}
	s, *d = p.steps.take(p, s, now, n, lease)
	return s
}

// direct implements the take of algorithms for which TakeInto calls their own takeInto.
type direct struct{}

func (direct) take(p *Plan, s State, now, n int64, lease uint64) (State, headgate.Decision) {
	return p.Take(s, now, n, lease)
}

// Charge takes n units whether that is allowed or not. It takes fewer if the debt would exceed its maximum; the receipt
// says how many. The error is headgate.ErrUnsupported for concurrency.
func (p *Plan) Charge(s State, now, n int64) (State, headgate.Decision, error) {
	if p.kind == KindLeases {
		return s, headgate.Decision{}, headgate.ErrUnsupported
	}
	s, d := p.steps.charge(p, s, now, n)
	return s, d, nil
}

// Renew extends the lease of a slot that holds n units by another TTL. An expired lease is taken again if that is
// allowed. It reports whether the slot is held. The error is headgate.ErrUnsupported for all algorithms but
// concurrency.
func (p *Plan) Renew(s State, now, n int64, lease uint64) (State, bool, error) {
	if p.kind != KindLeases {
		return s, false, headgate.ErrUnsupported
	}
	s, held := concurrency{}.renew(p, s, now, n, lease)
	return s, held, nil
}

// Give gives back n units that were taken with r.
func (p *Plan) Give(s State, now, n int64, r headgate.Receipt) State {
	if len(s) == 0 {
		return s
	}
	return p.steps.give(p, s, now, n, r)
}

// denyForever turns the decision of cost 0 into the denial of a cost above the capacity.
func (p *Plan) denyForever(d headgate.Decision) headgate.Decision {
	d.Allowed, d.RetryAfter, d.Delay, d.Receipt = false, headgate.Never, 0, headgate.Receipt{}
	return d
}

// Offset returns how far the key's clock is behind the store's, in µs. The store subtracts it from every time that it
// passes to the steps, so that the staggered windows of different keys begin at different times. The offset is less
// than the period and the same in every process. It is 0 for limits that are not staggered.
func (p *Plan) Offset(key string) int64 {
	if !p.limit.Staggered {
		return 0
	}
	return offsetOf(key, p.period)
}

func offsetOf(key string, period int64) int64 {
	const offsetBasis, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offsetBasis)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h ^= h >> 32
	return int64(h % uint64(period))
}

func micros(us int64) time.Duration { return time.Duration(min(us, forever)) * time.Microsecond }
