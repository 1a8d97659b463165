package sim

import (
	"math"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/sim/scenario"
)

// An oracle judges every decision. It counts all units immediately, and its clock is exact. It counts each wrong unit
// only once. For example, a client that was admitted five units above its limit, and stays there, was wrongly admitted
// five times and not more. So the oracle has three counters for each client. They are the same as long as no decision
// was wrong.
type oracle struct {
	all   []counter // all units that nodes have admitted
	right []counter // without the wrongly admitted units; contains only clients with such units
	due   []counter // with the wrongly denied units too; contains only clients with such units

	sweepAt int // number of clients at which the next sweep removes unused ones
}

// minSweep is the smallest number of clients for which a sweep is worth its time.
const minSweep = 1 << 16

// A counter has the counters of all clients under one limit.
type counter struct {
	plan   *algorithm.Plan
	pairs  map[uint64]algorithm.Pair  // by client, if plan.IsPair
	states map[uint64]algorithm.State // by client, otherwise
	excess int64                      // units by which a client was above the limit after its units were counted here
}

func newOracle(limits []headgate.Limit, by *headgate.Algorithm) (*oracle, error) {
	o := &oracle{sweepAt: minSweep}
	for _, l := range limits {
		l, err := scenario.Judge(l, by)
		if err != nil {
			return nil, err
		}
		plan, err := algorithm.NewPlan(l)
		if err != nil {
			return nil, err
		}
		for _, list := range []*[]counter{&o.all, &o.right, &o.due} {
			c := counter{plan: plan}
			if plan.IsPair() {
				c.pairs = make(map[uint64]algorithm.Pair)
			} else {
				c.states = make(map[uint64]algorithm.State)
			}
			*list = append(*list, c)
		}
	}
	return o, nil
}

// judge reports whether a decision is wrong. now is the time of the decision in µs. If the request was admitted, excess
// is the number of units by which the client is now above a limit.
func (o *oracle) judge(client uint64, now, cost int64, allowed bool) (wrong bool, excess int64) {
	if len(o.right[0].pairs)+len(o.due[0].pairs) == 0 && len(o.all) == 1 && o.all[0].pairs != nil {
		if o.judgePair(client, now, cost, allowed) {
			return false, 0
		}
	}
	if !allowed {
		due, differs := o.counters(o.due, client)
		if !room(due, client, now, cost) {
			return false, 0
		}
		if !differs {
			copyClient(o.due, o.all, client)
		}
		charge(o.due, client, now, cost)
		return true, 0
	}
	right, differs := o.counters(o.right, client)
	if wrong = !room(right, client, now, cost); wrong && !differs {
		copyClient(o.right, o.all, client)
	} else if !wrong && differs {
		charge(o.right, client, now, cost)
	}
	if _, differs := o.counters(o.due, client); differs {
		charge(o.due, client, now, cost)
	}
	excess = charge(o.all, client, now, cost)
	if o.all[0].size() >= o.sweepAt {
		o.sweep(now)
	}
	return wrong, excess
}

// judgePair judges a decision with few lookups. It works only if there is one limit and no decision was wrong before.
// If the decision is wrong, judgePair changes nothing and returns false.
func (o *oracle) judgePair(client uint64, now, cost int64, allowed bool) (done bool) {
	c := &o.all[0]
	pair := c.pairs[client]
	if c.plan.DecidePair(pair, now, cost).Allowed != allowed {
		return false
	}
	if allowed {
		c.pairs[client], _ = c.plan.ChargePair(pair, now, cost)
		if len(c.pairs) >= o.sweepAt {
			o.sweep(now)
		}
	}
	return true
}

// sweep removes clients whose units have all drained. It runs again when the number of clients has doubled, so its time
// for each client does not grow with their number.
func (o *oracle) sweep(now int64) {
	lists := [][]counter{o.all, o.right, o.due}
	for _, list := range lists {
		list[0].each(func(client uint64) {
			for _, list := range lists {
				for i := range list {
					if !list[i].isNew(client, now) {
						return
					}
				}
			}
			for _, list := range lists {
				for i := range list {
					delete(list[i].pairs, client)
					delete(list[i].states, client)
				}
			}
		})
	}
	o.sweepAt = max(minSweep, 2*o.all[0].size())
}

func (c *counter) size() int { return len(c.pairs) + len(c.states) }

// each calls do for every client. do may delete clients.
func (c *counter) each(do func(client uint64)) {
	for client := range c.pairs {
		do(client)
	}
	for client := range c.states {
		do(client)
	}
}

// isNew reports whether all units of a client have drained.
func (c *counter) isNew(client uint64, now int64) bool {
	if c.pairs != nil {
		return c.plan.DecidePair(c.pairs[client], now, 0).ResetAfter == 0
	}
	return c.plan.Decide(c.states[client], now, 0).ResetAfter == 0
}

// counters returns special if it has counters of the client, and o.all otherwise. differs reports whether it
// returned special.
func (o *oracle) counters(special []counter, client uint64) (_ []counter, differs bool) {
	c := &special[0]
	if c.pairs != nil {
		_, differs = c.pairs[client]
	} else {
		_, differs = c.states[client]
	}
	if differs {
		return special, true
	}
	return o.all, false
}

func copyClient(to, from []counter, client uint64) {
	for i := range to {
		if to[i].pairs != nil {
			to[i].pairs[client] = from[i].pairs[client]
		} else {
			to[i].states[client] = slices.Clone(from[i].states[client])
		}
	}
}

// room reports whether all limits of a client have room for a cost.
func room(counters []counter, client uint64, now, cost int64) bool {
	for i := range counters {
		c := &counters[i]
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

// remaining returns how many units of all its limits a client can still use.
func (o *oracle) remaining(client uint64, now int64) int64 {
	least := int64(math.MaxInt64)
	for i := range o.all {
		c := &o.all[i]
		if c.pairs != nil {
			least = min(least, c.plan.DecidePair(c.pairs[client], now, 0).Remaining)
		} else {
			least = min(least, c.plan.Decide(c.states[client], now, 0).Remaining)
		}
	}
	return least
}

// charge counts units, and returns the number of units by which the client is now above a limit.
func charge(counters []counter, client uint64, now, cost int64) (excess int64) {
	for i := range counters {
		c := &counters[i]
		var d headgate.Decision
		if c.pairs != nil {
			c.pairs[client], d = c.plan.ChargePair(c.pairs[client], now, cost)
		} else {
			// Only the algorithm concurrency returns an error, and scenarios refuse it.
			c.states[client], d, _ = c.plan.Charge(c.states[client], now, cost)
		}
		c.excess = -d.Remaining
		excess = max(excess, c.excess)
	}
	return excess
}
