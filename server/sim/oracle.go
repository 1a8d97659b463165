package sim

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/sim/scenario"
)

// An oracle knows everything at once: it has one counter per client and limit, by the right time, of all units that
// nodes admit. It says whether the limits had room for a request.
type oracle struct{ counters []counter }

// A counter is the counters of all clients under one limit.
type counter struct {
	plan   *algorithm.Plan
	pairs  map[uint64]algorithm.Pair  // of a plan with Pairs
	states map[uint64]algorithm.State // of any other
}

// judging returns the limit by which decisions under a limit are judged. The sliding window and its buckets are
// approximations of the log.
func judging(l headgate.Limit, by *headgate.Algorithm) (headgate.Limit, error) {
	switch {
	case by != nil:
		return scenario.WithAlgorithm(l, *by)
	case l.Algorithm == headgate.SlidingWindow, l.Algorithm == headgate.SlidingBuckets:
		return scenario.WithAlgorithm(l, headgate.SlidingLog)
	default:
		return l, nil
	}
}

func newOracle(limits []headgate.Limit, by *headgate.Algorithm) (*oracle, error) {
	o := new(oracle)
	for _, l := range limits {
		l, err := judging(l, by)
		if err != nil {
			return nil, err
		}
		plan, err := algorithm.NewPlan(l)
		if err != nil {
			return nil, err
		}
		c := counter{plan: plan}
		if plan.IsPair() {
			c.pairs = make(map[uint64]algorithm.Pair)
		} else {
			c.states = make(map[uint64]algorithm.State)
		}
		o.counters = append(o.counters, c)
	}
	return o, nil
}

// room reports whether all limits of a client have room for a cost, at a time in µs.
func (o *oracle) room(client uint64, now, cost int64) bool {
	for i := range o.counters {
		c := &o.counters[i]
		var d headgate.Decision
		if c.pairs != nil {
			d = c.plan.DecidePair(c.pairs[client], now, cost)
		} else {
			d = c.plan.Decide(c.states[client], now, cost)
		}
		if !d.Allowed {
			return false
		}
	}
	return true
}

// charge counts units that were admitted, and returns how many of a client are above a limit now.
func (o *oracle) charge(client uint64, now, cost int64) (excess int64) {
	for i := range o.counters {
		c := &o.counters[i]
		var d headgate.Decision
		if c.pairs != nil {
			c.pairs[client], d = c.plan.ChargePair(c.pairs[client], now, cost)
		} else {
			// Only concurrency returns an error, and scenarios refuse it.
			c.states[client], d, _ = c.plan.Charge(c.states[client], now, cost)
		}
		excess = max(excess, -d.Remaining)
	}
	return excess
}
