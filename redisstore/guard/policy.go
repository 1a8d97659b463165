package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// degrade decides a check by its policy, because its shard is unavailable.
func (g *Guard) degrade(ctx context.Context, s *shard, c *headgate.Check) (headgate.Decision, error) {
	d, denied := decideWithoutCounter(s, c)
	if !denied && c.OnFailure == headgate.Local {
		var err error
		if d, err = g.local.Take(ctx, g.localCheck(c)); err == nil {
			d = localDecision(s, d)
			g.count(s, headgate.Local)
			return d, nil
		}
		if ctx.Err() != nil {
			return headgate.Decision{}, ctx.Err()
		}
		g.counters.localFailures.Add(1)
		d = open(c)
	}
	g.count(s, c.OnFailure)
	return d, nil
}

// count counts a decision by a policy.
func (g *Guard) count(s *shard, p headgate.Policy) {
	g.counters.degraded[p].Add(1)
	s.degraded.Add(1)
}

// decideWithoutCounter decides a check by its policy as far as possible without a counter. If it denies, the decision
// is final. If it allows, the caller must still ask the local limiter if the policy is Local.
func decideWithoutCounter(s *shard, c *headgate.Check) (d headgate.Decision, denied bool) {
	capacity := c.Limit.Capacity()
	switch {
	case c.Cost > capacity:
		return headgate.Decision{Degraded: true, Limit: capacity, RetryAfter: headgate.Never}, true
	case c.OnFailure == headgate.Closed:
		wait := s.circuit.retryAfter()
		return headgate.Decision{Degraded: true, Limit: capacity, RetryAfter: wait, ResetAfter: wait}, true
	default:
		return open(c), false
	}
}

// open returns the decision of the policy Open.
func open(c *headgate.Check) headgate.Decision {
	d := headgate.Decision{Allowed: true, Degraded: true, Limit: c.Limit.Capacity()}
	d.Remaining = d.Limit - c.Cost
	if c.Cost > 0 {
		d.Receipt = headgate.Receipt{At: takenNowhere, Units: c.Cost}
	}
	return d
}

// localCheck returns the check for the local limiter.
func (g *Guard) localCheck(c *headgate.Check) headgate.Check {
	local := headgate.Check{Key: c.Key, Owner: c.Owner, Cost: c.Cost}
	if c.Safe != nil {
		local.Limit = *c.Safe
		return local
	}
	nodes := 1
	if g.options.Nodes != nil {
		nodes = max(1, g.options.Nodes())
	}
	local.Limit = share(c.Limit, int64(nodes))
	return local
}

// share returns the part of a limit that one of several nodes may use.
func share(l headgate.Limit, nodes int64) headgate.Limit {
	l.Count = max(1, l.Count/nodes)
	if l.Burst == 0 {
		return l
	}
	if l.Burst = max(1, l.Burst/nodes); l.Validate() != nil {
		l.Burst = 0 // the burst would refill too slowly
	}
	return l
}

// localDecision turns a decision of the local limiter into a decision of the guard.
func localDecision(s *shard, d headgate.Decision) headgate.Decision {
	d.Degraded = true
	if d.RetryAfter == headgate.Never { // the check may pass when the shard works again
		d.RetryAfter = s.circuit.retryAfter()
	}
	d.Receipt = takenLocally(d.Receipt)
	return d
}

// takenNowhere is the At of a receipt of the policy Open. Receipts of Local have a lower At.
const takenNowhere = -1

// takenLocally marks a receipt of the local limiter.
func takenLocally(r headgate.Receipt) headgate.Receipt {
	if r.Units > 0 {
		r.At = takenNowhere - 1 - r.At
	}
	return r
}

// localReceipt returns the receipt of the local limiter that takenLocally has marked.
func localReceipt(r headgate.Receipt) headgate.Receipt {
	r.At = takenNowhere - 1 - r.At
	return r
}
