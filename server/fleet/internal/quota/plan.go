package quota

import (
	"math/bits"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A Plan is a limit prepared for counting.
type Plan struct {
	algorithm.Plan
	Limit  headgate.Limit
	Kind   algorithm.Kind
	Period int64 // µs
	Shared bool  // nodes can share the limit by exchanging totals
	Width  int   // number of bits of the capacity
}

// NewPlan prepares a limit.
func NewPlan(limit headgate.Limit) (*Plan, error) {
	p := &Plan{Limit: limit, Period: limit.Period.Microseconds()}
	if err := p.Set(limit); err != nil {
		return nil, err
	}
	p.Kind = p.Plan.Kind()
	switch limit.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.FixedWindow, headgate.SlidingWindow:
		p.Shared = true
	}
	p.Width = bits.Len64(uint64(p.Capacity()))
	return p, nil
}

// HasWindows reports whether consumption belongs to a window.
func (p *Plan) HasWindows() bool {
	return p.Kind == algorithm.KindFixedWindow || p.Kind == algorithm.KindSlidingWindow
}

// IsBucket reports whether consumption drains continuously.
func (p *Plan) IsBucket() bool { return p.Kind == algorithm.KindBucket }

// WindowOf returns the start of the window that contains a time.
func (p *Plan) WindowOf(at int64) int64 {
	rest := at % p.Period
	if rest < 0 {
		rest += p.Period
	}
	return at - rest
}

// UnitsIn returns how many units drain in a time, at most headgate.MaxCount.
func (p *Plan) UnitsIn(micros int64) int64 { return p.DrainedOf(headgate.MaxCount, micros) }

// DrainedOf returns how many of the given units drain in a time.
func (p *Plan) DrainedOf(units, micros int64) int64 {
	if micros <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(micros), uint64(p.Limit.Count))
	if hi >= uint64(p.Period) {
		return units // more than 2^64 units could drain
	}
	drained, _ := bits.Div64(hi, lo, uint64(p.Period))
	return int64(min(drained, uint64(units)))
}

// TimeFor returns how long units take to drain, rounded up, in µs.
func (p *Plan) TimeFor(units int64) int64 {
	if units <= 0 || p.Limit.Count == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(p.Period))
	if hi >= uint64(p.Limit.Count) {
		return MaxTime
	}
	micros, rest := bits.Div64(hi, lo, uint64(p.Limit.Count))
	if rest > 0 {
		micros++
	}
	return int64(min(micros, MaxTime))
}

// MaxTime is longer than the times of all limits, in µs. It can be added to other times without overflow.
const MaxTime = 1 << 55

// A Counter counts the units consumed under one plan. Depending on the algorithm, its state is an algorithm.Pair or an
// algorithm.State. Times are in µs.
type Counter struct {
	words [4]int64        // the pair, or the first part of the state
	state algorithm.State // nil for a pair
}

func (c *Counter) pair() algorithm.Pair {
	return algorithm.Pair{Time: c.words[0], Units: c.words[1], Last: c.words[2]}
}

func (c *Counter) setPair(p algorithm.Pair) {
	c.words[0], c.words[1], c.words[2] = p.Time, p.Units, p.Last
}

// Adopt converts the counter from one plan to another plan of the same kind. See [algorithm.Plan.Convert].
func (c *Counter) Adopt(from, to *Plan, shift, at int64) {
	if from.IsPair() {
		c.setPair(to.ConvertPair(&from.Plan, c.pair(), shift, at))
		return
	}
	c.state = to.Convert(c.state, shift, at)
}

// Decide returns the decision on n units without taking them.
func (c *Counter) Decide(p *Plan, at, n int64) headgate.Decision {
	if p.IsPair() {
		return p.DecidePair(c.pair(), at, n)
	}
	return p.Decide(c.state, at, n)
}

// Level returns the number of consumed units that count at a time. It is the capacity minus Remaining.
func (c *Counter) Level(p *Plan, at int64) int64 {
	if p.IsPair() {
		return p.LevelPair(c.pair(), at)
	}
	return p.Capacity() - p.Decide(c.state, at, 0).Remaining
}

// Take takes n units, from 1 to the capacity, if the limit allows it, and sets d. For a concurrency limit, lease is the
// identifier of the slot.
func (c *Counter) Take(p *Plan, at, n int64, lease uint64, d *headgate.Decision) bool {
	if p.IsPair() {
		pair, ok := p.TakePair(c.pair(), at, n)
		if !ok {
			*d = p.DecidePair(pair, at, n)
			return false
		}
		c.setPair(pair)
		p.Describe(d, pair, at, n)
		return true
	}
	c.state, *d = p.Take(c.stateOrEmpty(), at, n, lease)
	return d.Allowed
}

// Deny records that a take was denied, and reports whether this counts as the latest decision when the limit changes.
// See [algorithm.Plan.DenyPair].
func (c *Counter) Deny(p *Plan, at int64) bool {
	if !p.IsPair() {
		return false
	}
	before := c.pair()
	after := p.DenyPair(before, at)
	if after.Last == before.Last {
		return false
	}
	c.setPair(after)
	return true
}

// Charge takes n units regardless of the limit, into a bounded debt.
func (c *Counter) Charge(p *Plan, at, n int64) (d headgate.Decision) {
	if p.IsPair() {
		pair, d := p.ChargePair(c.pair(), at, n)
		c.setPair(pair)
		return d
	}
	c.state, d, _ = p.Charge(c.stateOrEmpty(), at, n) // only concurrency limits return an error, and are never charged
	return d
}

// Give returns n units that were taken with the receipt r under the plan takenUnder.
func (c *Counter) Give(p, takenUnder *Plan, at, n int64, r headgate.Receipt) {
	if p.IsPair() {
		c.setPair(p.GivePair(&takenUnder.Plan, c.pair(), at, n, r))
		return
	}
	c.state = p.Give(c.stateOrEmpty(), at, n, r)
}

func (c *Counter) stateOrEmpty() algorithm.State {
	if c.state == nil {
		return c.words[:0]
	}
	return c.state
}

// UnitsStarted returns the number of units that drain in a time, rounded up.
func (p *Plan) UnitsStarted(micros int64) int64 {
	units := p.UnitsIn(micros)
	if p.TimeFor(units) < micros {
		units++
	}
	return units
}

// PartTime returns how long a part of a unit takes to drain, in µs. part is in units of 1/UnitParts.
func (p *Plan) PartTime(part uint8) int64 { return p.TimeFor(int64(part)) / UnitParts }

// UnitParts is the number of parts into which a unit is divided when levels are compared.
const UnitParts = 64

// SameRate reports whether two buckets drain at the same rate.
func (p *Plan) SameRate(other *Plan) bool {
	a, b := gcd(p.Limit.Count, p.Period), gcd(other.Limit.Count, other.Period)
	return p.Limit.Count/a == other.Limit.Count/b && p.Period/a == other.Period/b
}

// gcd returns the greatest common divisor of two positive numbers.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// ChangeRate converts a bucket to another plan. The units of its level at the time changedAt count as consumed at that
// time. It reports whether the bucket is not empty at the time now.
func (c *Counter) ChangeRate(from, to *Plan, changedAt, now int64) bool {
	notEmpty, units := c.Level(from, now) > 0, c.Level(from, changedAt)
	*c = Counter{}
	if notEmpty && units > 0 {
		taken := c.Charge(to, changedAt, units).Receipt.Units
		c.words[1] += units - taken // keep a debt that is deeper than the new limit allows
	}
	return notEmpty
}

// AllowedPart returns the part of a node's total in one window that its counter can have allowed: at most the capacity.
func (p *Plan) AllowedPart(total int64) int64 { return max(0, min(total, p.Capacity())) }

// Set sets the counter to the state after units were consumed at the time at, and none before.
func (c *Counter) Set(p *Plan, at, units int64) {
	s := p.NewState(at, units)
	if p.IsPair() {
		c.setPair(algorithm.PairOf(s))
		return
	}
	c.state = s
}

// Indices of words in the state of a sliding window.
const latestWord, currentWord, previousWord = 1, 2, 3

// ChargeWindowBefore charges n units of a sliding window to the window before the one that starts at window.
func (c *Counter) ChargeWindowBefore(p *Plan, window, at, n int64) {
	level := c.Level(p, at)
	if len(c.state) <= previousWord || c.state[latestWord] < window {
		// There is no state for this window yet: start one.
		c.Charge(p, at, 1)
		c.state[currentWord] = max(0, c.state[currentWord]-1)
	}
	deepest := p.Capacity()*(1+headgate.MaxDebt) - level
	c.state[previousWord] += max(0, min(n, deepest))
}

// InWindowBefore returns the units of a sliding window in the window before the one that starts at window.
func (c *Counter) InWindowBefore(p *Plan, window int64) int64 {
	if len(c.state) <= previousWord {
		return 0
	}
	switch p.WindowOf(c.state[latestWord]) {
	case window:
		return c.state[previousWord]
	case window - p.Period:
		return c.state[currentWord]
	default:
		return 0
	}
}

// Renew extends a slot of a concurrency limit by another TTL. It reports whether the slot was still held.
func (c *Counter) Renew(p *Plan, at, n int64, lease uint64) (held bool, err error) {
	state, held, err := p.Renew(c.stateOrEmpty(), at, n, lease)
	if err != nil {
		return false, err
	}
	c.state = state
	return held, nil
}

// Clone returns an independent copy.
func (c *Counter) Clone() Counter {
	other := *c
	other.state = slices.Clone(c.state)
	return other
}

// Consumed returns when a counter that is not a bucket last changed, and its level then.
func (c *Counter) Consumed(p *Plan, now int64) (at, units int64) {
	if p.IsPair() {
		return p.ConsumedPair(c.pair(), now)
	}
	return c.state.Consumed(now)
}

// Share returns part/whole of a limit, and at least one unit.
func Share(l headgate.Limit, part, whole int64) headgate.Limit {
	l.Count = max(1, Scale(l.Count, part, whole))
	if l.Burst != 0 {
		if l.Burst = max(1, Scale(l.Burst, part, whole)); l.Validate() != nil {
			l.Burst = 0 // it would take too long to refill at this rate
		}
	}
	return l
}

// Scale returns n × part / whole without overflow, for n up to headgate.MaxCount.
func Scale(n, part, whole int64) int64 { return n/whole*part + n%whole*part/whole }
