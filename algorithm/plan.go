package algorithm

import (
	"time"

	"github.com/headgate/headgate"
)

// A State is what a store keeps for one key, in words. The empty State is that of a key never seen. A step may change
// the words of the state it is given and may return a longer one; the one it was given is not used again.
//
// A State says under what limit it was written, as far as its words depend on that, and when the latest decision was that
// changed it. Its steps are those of a plan that owns it (see [Plan.Owns]); [Plan.Carry] makes it one of another limit.
type State []int64

// steps is all that there is to say of an algorithm. now is in microseconds; n is in units, 0 only to look in decide and at
// least 1 elsewhere. A step finds n at most the capacity of the plan, except in charge. An algorithm whose state is a few
// numbers need not write all of this: see [counting].
type steps interface {
	// decide tells what a take of n would meet. It changes nothing.
	decide(p *Plan, s State, now, n int64) headgate.Decision
	// take is decide, with n units taken if they are allowed. Only concurrency needs lease, a name for the place.
	take(p *Plan, s State, now, n int64, lease uint64) (State, headgate.Decision)
	// charge takes n units, allowed or not, up to the plan's deepest debt.
	charge(p *Plan, s State, now, n int64) (State, headgate.Decision)
	// give returns n units that were taken with r.
	give(p *Plan, s State, now, n int64, r headgate.Receipt) State

	// kind returns the kind of its states.
	kind() Kind
	// words returns how long a state is at first, and by how much a step may let it grow.
	words(p *Plan) (first, growth int)
	// prepare fills in what a new plan has beside what every plan has. It is not called for buckets.
	prepare(p *Plan)
	// restore does the same for the plan of a state, which knows the head of the state and nothing else.
	restore(p *Plan, s State)
	// consumed returns when the latest decision was that changed a state, and what counted as consumed then; or now and
	// nothing, if by now nothing of it counts.
	consumed(p *Plan, s State, now int64) (at, units int64)
	// place returns the state of a key that has consumed units, which may be none, at a time and nothing before.
	place(p *Plan, at, units int64) State

	// luaArgs returns the numbers that the script calls a and b: see [Plan.LuaArgs].
	luaArgs(p *Plan, offset int64, lease uint64) (a, b int64)
	// lua names the other files that its script needs.
	lua() luaNeeds
}

// A Kind names the form of a state. Stores keep one state for each key whatever its kind, and carry it over when the limit
// changes; only the leases of concurrency, which are no consumption, are kept apart from all others.
type Kind uint8

// The kinds of state. All but KindLeases begin with a head that names the kind and a number of the limit.
const (
	KindBucket   Kind = iota // head and rate, a Pair: token-bucket, gcra, leaky-bucket
	KindWindow               // head, a Pair: fixed-window
	KindWindows              // head, latest, current, previous: sliding-window
	KindBuckets              // head, latest, counts…: sliding-buckets
	KindLog                  // head, units, latest, first, (time, units)…: sliding-log
	KindLeases               // latest, (expiry, units, lease)…: concurrency
	KindCounters             // head, latest, numbers…: algorithms without a kind of their own
	Kinds                    // how many there are
)

//go:generate go run ../internal/algorithmlist all.go

// kinds are those of all algorithms, so that a plan need not ask for them.
var kinds = func() (kinds [len(all)]Kind) {
	for a, steps := range all {
		kinds[a] = steps.kind()
	}
	return kinds
}()

// A Plan is a limit made ready for deciding. It is immutable and safe for concurrent use.
type Plan struct {
	limit    headgate.Limit
	kind     Kind
	steps    steps
	capacity int64 // the most that can be taken at once
	deepest  int64 // the most that can ever be consumed, debt included
	head     int64 // of its states
	rate     rate
	period   int64 // µs; the TTL for concurrency
	buckets  int64
	width    int64 // µs of one sub-bucket
}

// NewPlan makes a limit ready. The error is that of limit.Validate.
func NewPlan(limit headgate.Limit) (*Plan, error) {
	p := &Plan{}
	if err := p.Set(limit); err != nil {
		return nil, err
	}
	return p, nil
}

// Set makes p the plan of a limit, whatever it was before. The error is that of limit.Validate, and leaves it as it was.
func (p *Plan) Set(limit headgate.Limit) error {
	if !usual(&limit) {
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
	p.deepest = p.capacity * (1 + headgate.MaxDebt)
	if p.kind != KindBucket {
		if p.steps.prepare(p); p.kind == KindLeases {
			return nil
		}
	}
	p.rate = newRate(limit.Count, p.period)
	p.head = p.headOf()
	return nil
}

// usual tells of most limits that are valid that they are, sooner than Validate does: where a million clients have a limit each,
// a plan is made for every decision.
func usual(l *headgate.Limit) bool {
	const most, longest, refill = 1 << 20, 24 * time.Hour, 1 << 49 // see headgate.Limit.Validate
	return l.Algorithm <= headgate.GCRA && uint64(l.Count-1) < most && uint64(l.Burst) <= most &&
		l.Period > 0 && l.Period <= longest && l.Period%time.Microsecond == 0 && l.Burst*l.Period.Microseconds() <= refill &&
		l.Buckets == 0 && l.TTL == 0 && !l.Staggered
}

// Limit returns the limit that the plan was made from.
func (p *Plan) Limit() headgate.Limit { return p.limit }

// Capacity returns the most that can be taken at once.
func (p *Plan) Capacity() int64 { return p.capacity }

// Rate returns how many units drain in how many microseconds, in lowest terms. Concurrency has none.
func (p *Plan) Rate() (units, micros int64) { return p.rate.units, p.rate.micros }

// Kind returns the kind of the plan's states.
func (p *Plan) Kind() Kind { return p.kind }

// Words returns how long a state is at first. Those of sliding-log and concurrency grow with what they remember.
func (p *Plan) Words() int {
	first, _ := p.steps.words(p)
	return first
}

// Growth returns by how many words a step may let a state grow.
func (p *Plan) Growth() int {
	_, growth := p.steps.words(p)
	return growth
}

// MaxUnits returns the most units that a Pair of this plan can hold, unless it was carried over from another limit.
func (p *Plan) MaxUnits() int64 {
	if p.kind == KindBucket {
		return p.deepest + p.rate.units // what has drained since the anchor comes on top
	}
	return p.deepest
}

// Life returns how long a Pair of this plan with that many units is worth remembering after its Time, in µs: later it is
// as good as none.
func (p *Plan) Life(units int64) int64 {
	if p.kind == KindBucket {
		return p.rate.timeFor(units)
	}
	return p.period
}

// Decide tells what Take would answer, and changes nothing.
func (p *Plan) Decide(s State, now, n int64) headgate.Decision {
	if n > p.capacity {
		return p.never(p.steps.decide(p, s, now, 0))
	}
	return p.steps.decide(p, s, now, n)
}

// Take takes n units if that is allowed; n = 0 only looks. lease names the place taken under a concurrency limit and is
// used by no other.
func (p *Plan) Take(s State, now, n int64, lease uint64) (State, headgate.Decision) {
	if n == 0 || n > p.capacity {
		return s, p.Decide(s, now, n)
	}
	return p.steps.take(p, s, now, n, lease)
}

// Charge takes n units whether that is allowed or not; the receipt says how many of them, if the debt is at its deepest.
// The error is headgate.ErrUnsupported for concurrency.
func (p *Plan) Charge(s State, now, n int64) (State, headgate.Decision, error) {
	if p.kind == KindLeases {
		return s, headgate.Decision{}, headgate.ErrUnsupported
	}
	s, d := p.steps.charge(p, s, now, n)
	return s, d, nil
}

// Renew gives the lease of a slot that holds n units another TTL. If it has expired it is taken again, if that is allowed.
// It reports whether the slot is held. The error is headgate.ErrUnsupported for all but concurrency.
func (p *Plan) Renew(s State, now, n int64, lease uint64) (State, bool, error) {
	if p.kind != KindLeases {
		return s, false, headgate.ErrUnsupported
	}
	s, held := concurrency{}.renew(p, s, now, n, lease)
	return s, held, nil
}

// Give returns n units that were taken with r.
func (p *Plan) Give(s State, now, n int64, r headgate.Receipt) State {
	if len(s) == 0 {
		return s
	}
	return p.steps.give(p, s, now, n, r)
}

// never turns a look into the denial of a cost that cannot pass.
func (p *Plan) never(d headgate.Decision) headgate.Decision {
	d.Allowed, d.RetryAfter, d.Delay, d.Receipt = false, headgate.Never, 0, headgate.Receipt{}
	return d
}

// Offset returns by how much a key's clock is behind: 0, except for a staggered window, which begins at a moment of the
// key's own because its store takes the offset from every time it passes to the steps. The offset is less than the
// period, and the same in every process.
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
