package fleet

import (
	"math/bits"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan is a limit made ready.
type plan struct {
	algorithm.Plan
	limit  headgate.Limit
	kind   algorithm.Kind
	period int64 // µs
	shared bool  // nodes tell each other of it
	width  int   // of the capacity, in bits
}

func newPlan(limit headgate.Limit) (*plan, error) {
	p := &plan{limit: limit, period: limit.Period.Microseconds()}
	if err := p.Set(limit); err != nil {
		return nil, err
	}
	p.kind = p.Kind()
	switch limit.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.FixedWindow, headgate.SlidingWindow:
		p.shared = true
	}
	p.width = bits.Len64(uint64(p.Capacity()))
	return p, nil
}

// windowed reports whether what is consumed belongs to a window.
func (p *plan) windowed() bool {
	return p.kind == algorithm.KindWindow || p.kind == algorithm.KindWindows
}

// leaks reports whether what was consumed goes bit by bit.
func (p *plan) leaks() bool { return p.kind == algorithm.KindBucket }

// window returns when the window that holds a time began.
func (p *plan) window(at int64) int64 {
	rest := at % p.period
	if rest < 0 {
		rest += p.period
	}
	return at - rest
}

// unitsIn returns what leaks in a time, at most a number.
func (p *plan) unitsIn(micros, most int64) int64 {
	if micros <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(micros), uint64(p.limit.Count))
	if hi >= uint64(p.period) {
		return most
	}
	units, _ := bits.Div64(hi, lo, uint64(p.period))
	return int64(min(units, uint64(most)))
}

// timeFor returns how long so many units take to leak, rounded up, in µs.
func (p *plan) timeFor(units int64) int64 {
	if units <= 0 || p.limit.Count == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(units), uint64(p.period))
	if hi >= uint64(p.limit.Count) {
		return longest
	}
	micros, rest := bits.Div64(hi, lo, uint64(p.limit.Count))
	if rest > 0 {
		micros++
	}
	return int64(min(micros, longest))
}

// longest is a time beyond all limits, in µs, that can be added to others.
const longest = 1 << 55

// A counter is what was consumed under one plan.
type counter struct {
	room  [4]int64        // the pair, or where the state begins
	state algorithm.State // if it is no pair
}

func (c *counter) pair() algorithm.Pair {
	return algorithm.Pair{Time: c.room[0], Units: c.room[1], Last: c.room[2]}
}

func (c *counter) setPair(p algorithm.Pair) {
	c.room[0], c.room[1], c.room[2] = p.Time, p.Units, p.Last
}

// adopt makes what was consumed under a plan that of another of its kind. See [algorithm.Plan.Carry].
func (c *counter) adopt(from, to *plan, shift, at int64) {
	if from.IsPair() {
		c.setPair(to.CarryPair(&from.Plan, c.pair(), shift, at))
		return
	}
	c.state = to.Carry(c.state, shift, at)
}

func (c *counter) decide(p *plan, at, n int64) headgate.Decision {
	if p.IsPair() {
		return p.DecidePair(c.pair(), at, n)
	}
	return p.Decide(c.state, at, n)
}

// take takes n units, of which there are at least 1 and at most the capacity, if that is allowed.
func (c *counter) take(p *plan, at, n int64, d *headgate.Decision) bool {
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
	var lease uint64
	if p.kind == algorithm.KindLeases {
		lease = newLease()
	}
	c.state, *d = p.Take(c.states(), at, n, lease)
	return d.Allowed
}

func (c *counter) charge(p *plan, at, n int64) (d headgate.Decision) {
	if p.IsPair() {
		pair, d := p.ChargePair(c.pair(), at, n)
		c.setPair(pair)
		return d
	}
	c.state, d, _ = p.Charge(c.states(), at, n) // concurrency, which has no charge, never comes here
	return d
}

// give returns n units that were taken with r under the plan own.
func (c *counter) give(p, own *plan, at, n int64, r headgate.Receipt) {
	if p.IsPair() {
		c.setPair(p.GivePair(&own.Plan, c.pair(), at, n, r))
		return
	}
	c.state = p.Give(c.states(), at, n, r)
}

func (c *counter) states() algorithm.State {
	if c.state == nil {
		return c.room[:0]
	}
	return c.state
}
