package whatif

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Terms describe how a client is limited. At most one of Unlimited, Blocked and Limits is set.
type Terms struct {
	Unlimited, Blocked bool
	Limits             []headgate.Limit
	// MaxDelay is the maximum delay of a request. A request that would need a longer delay is denied.
	MaxDelay time.Duration
	// CountRejected makes denied requests take units too.
	CountRejected bool
}

// Outcome counts requests.
type Outcome struct{ Requests, Denied, Delayed int64 }

// maxSteps is the maximum number of steps over which the requests of an event are spread.
const maxSteps = 1000

// A player replays requests under limits. It keeps the plans of the limits of the last client.
type player struct {
	terms  Terms
	plans  []*algorithm.Plan
	states []algorithm.State
	pair   algorithm.Pair
	offset []int64
}

// prepare prepares the replay of a client.
func (p *player) prepare(t *Terms, key uint64) error {
	same := len(p.plans) == len(t.Limits)
	for i := range t.Limits {
		same = same && p.plans[i].Limit() == t.Limits[i]
	}
	p.terms, p.pair = *t, algorithm.Pair{}
	if !same {
		p.plans = p.plans[:0]
		for _, l := range t.Limits {
			plan, err := algorithm.NewPlan(l)
			if err != nil {
				return err
			}
			p.plans = append(p.plans, plan)
		}
	}
	p.states, p.offset = p.states[:0], p.offset[:0]
	for _, plan := range p.plans {
		p.states = append(p.states, nil)
		p.offset = append(p.offset, plan.Offset(keyText(key)))
	}
	return nil
}

func keyText(key uint64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(key >> (8 * i))
	}
	return string(b[:])
}

// neverDenies reports whether a client that takes these units in total is never denied. This is so if no limit has a
// smaller capacity.
func (p *player) neverDenies(units int64) bool {
	for _, plan := range p.plans {
		if units > plan.Capacity() {
			return false
		}
	}
	return true
}

// play replays the requests of a client. If untilDenied is true, it stops at the first denial.
func (p *player) play(c *Client, untilDenied bool) (o Outcome) {
	units := int64(0)
	for i := range c.Events {
		o.Requests += int64(c.Events[i].Count)
		units += int64(c.Events[i].Count) * int64(c.Events[i].Cost)
	}
	switch {
	case p.terms.Blocked:
		o.Denied = o.Requests
		return o
	case p.terms.Unlimited || len(p.plans) == 0:
		return o
	case p.neverDenies(units) && p.terms.MaxDelay == 0 && !p.canDelay():
		return o
	}
	for i := range c.Events {
		e := &c.Events[i]
		steps := int64(1)
		if c.Spread > 0 {
			steps = min(int64(e.Count), maxSteps)
		}
		for s := range steps {
			// The requests of a step are in the middle of its time.
			at := e.At + (2*s+1)*c.Spread.Microseconds()/(2*steps)
			n := int64(e.Count)*(s+1)/steps - int64(e.Count)*s/steps
			denied, delayed := p.step(at, n, int64(e.Cost))
			o.Denied += denied
			o.Delayed += delayed
			if untilDenied && o.Denied > 0 {
				return o
			}
		}
	}
	return o
}

// canDelay reports whether the algorithm of a limit can delay requests.
func (p *player) canDelay() bool {
	for _, plan := range p.plans {
		if plan.Limit().Algorithm == headgate.LeakyBucket {
			return true
		}
	}
	return false
}

// step decides n requests at a time.
func (p *player) step(at, n, cost int64) (denied, delayed int64) {
	if len(p.plans) == 1 && p.plans[0].IsPair() && p.terms.MaxDelay == 0 && !p.terms.CountRejected && !p.canDelay() {
		return p.stepPair(at, n, cost), 0
	}
	for i := range n {
		ok, wait := p.take(at, cost)
		switch {
		case ok && wait > 0:
			delayed++
		case ok:
		case p.terms.CountRejected:
			p.charge(at, cost)
			denied++
		default:
			return n - i, delayed // all later requests of this time are denied too
		}
	}
	return denied, delayed
}

// stepPair does the same as step for one limit whose state is a Pair.
func (p *player) stepPair(at, n, cost int64) (denied int64) {
	plan := p.plans[0]
	if cost > plan.Capacity() {
		return n
	}
	for i := range n {
		next, ok := plan.TakePair(p.pair, at-p.offset[0], cost)
		if p.pair = next; !ok {
			return n - i
		}
	}
	return 0
}

// take takes units from all limits or from none. If a request must wait, but at most MaxDelay, take takes its units at
// the end of the wait.
func (p *player) take(at, cost int64) (ok bool, wait time.Duration) {
	wait, allowed := p.decide(at, cost)
	if !allowed {
		if p.terms.MaxDelay == 0 || wait > p.terms.MaxDelay {
			return false, 0
		}
		at += wait.Microseconds()
		if _, allowed = p.decide(at, cost); !allowed {
			return false, 0
		}
	}
	for i, plan := range p.plans {
		var d headgate.Decision
		p.states[i], d = plan.Take(p.states[i], at-p.offset[i], cost, 0)
		wait = max(wait, d.Delay)
	}
	return true, wait
}

// decide reports whether all limits allow a request. If not, wait is the time after which they may allow it.
func (p *player) decide(at, cost int64) (wait time.Duration, allowed bool) {
	allowed = true
	for i, plan := range p.plans {
		d := plan.Decide(p.states[i], at-p.offset[i], cost)
		if !d.Allowed {
			allowed = false
			if d.RetryAfter == headgate.Never {
				return headgate.MaxPeriod, false
			}
			wait = max(wait, d.RetryAfter)
		}
	}
	return wait, allowed
}

func (p *player) charge(at, cost int64) {
	for i, plan := range p.plans {
		// Charge fails only for concurrency limits, and the plans contain none.
		if state, _, err := plan.Charge(p.states[i], at-p.offset[i], cost); err == nil {
			p.states[i] = state
		}
	}
}
