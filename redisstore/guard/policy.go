package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// decideByPolicy decides a check by its failure policy, Check.OnFailure, because the shard is unavailable. If the policy
// is Local and the local limiter fails, it fails open.
func (g *Guard) decideByPolicy(ctx context.Context, s *shard, c *headgate.Check) (headgate.Decision, error) {
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
		d = failOpen(c)
	}
	g.count(s, c.OnFailure)
	return d, nil
}

// count counts a decision by a policy.
func (g *Guard) count(s *shard, p headgate.Policy) {
	g.counters.degraded[p].Add(1)
	s.degraded.Add(1)
}

// decideWithoutCounter applies the part of the failure policy that needs no counter. A denial is final. If it allows a
// check whose policy is Local, the caller must still ask the local limiter.
func decideWithoutCounter(s *shard, c *headgate.Check) (d headgate.Decision, denied bool) {
	capacity := c.Limit.Capacity()
	switch {
	case c.Cost > capacity:
		return headgate.Decision{Degraded: true, Limit: capacity, RetryAfter: headgate.Never}, true
	case c.OnFailure == headgate.Closed:
		wait := s.circuit.retryAfter()
		return headgate.Decision{Degraded: true, Limit: capacity, RetryAfter: wait, ResetAfter: wait}, true
	default:
		return failOpen(c), false
	}
}

// failOpen allows a check without counting it.
func failOpen(c *headgate.Check) headgate.Decision {
	d := headgate.Decision{Allowed: true, Degraded: true, Limit: c.Limit.Capacity()}
	d.Remaining = d.Limit - c.Cost
	if c.Cost > 0 {
		d.Receipt = headgate.Receipt{At: atNowhere, Units: c.Cost}
	}
	return d
}

// localCheck returns the check for the local limiter.
func (g *Guard) localCheck(c *headgate.Check) headgate.Check {
	local := headgate.Check{Key: c.Key, Owner: c.Owner, Cost: c.Cost}
	if c.Safe != nil { // the rule states a limit for the policy Local
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
		l.Burst = 0 // the lower rate would refill it too slowly; 0 is the default burst, which is valid
	}
	return l
}

// localDecision turns a decision of the local limiter into a decision of the guard.
func localDecision(s *shard, d headgate.Decision) headgate.Decision {
	d.Degraded = true
	if d.RetryAfter == headgate.Never { // the check may be allowed when the shard is available again
		d.RetryAfter = s.circuit.retryAfter()
	}
	d.Receipt = markLocal(d.Receipt)
	return d
}

// Receipt.At also says where units were taken:
//
//	0 or more    in the store, at this time in µs
//	-1           nowhere, because the policy is Open
//	-2 or less   in the local limiter, because the policy is Local: -2 minus the time by its clock
const atNowhere = -1 // of the policy Open

// markLocal maps the At of a receipt of the local limiter to -2 or less.
func markLocal(r headgate.Receipt) headgate.Receipt {
	if r.Units > 0 {
		r.At = atNowhere - 1 - r.At
	}
	return r
}

// localReceipt undoes markLocal: it returns the receipt of the local limiter.
func localReceipt(r headgate.Receipt) headgate.Receipt {
	r.At = atNowhere - 1 - r.At
	return r
}
