package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// degrade decides a check whose shard cannot be asked.
func (g *Guard) degrade(ctx context.Context, s *shard, c *headgate.Check) (headgate.Decision, error) {
	d, denied := g.byItself(s, c)
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

// count counts one decision that a policy made.
func (g *Guard) count(s *shard, p headgate.Policy) {
	g.counters.degraded[p].Add(1)
	s.degraded.Add(1)
}

// byItself decides what needs no counter: all but what Local allows. It reports whether it denies.
func (g *Guard) byItself(s *shard, c *headgate.Check) (d headgate.Decision, denied bool) {
	capacity := c.Limit.Capacity()
	switch {
	case c.Cost > capacity:
		return headgate.Decision{Degraded: true, Limit: capacity, RetryAfter: headgate.Never}, true
	case c.OnFailure == headgate.Closed:
		wait := s.estimate()
		return headgate.Decision{Degraded: true, Limit: capacity, RetryAfter: wait, ResetAfter: wait}, true
	default:
		return open(c), false
	}
}

// open lets a check pass.
func open(c *headgate.Check) headgate.Decision {
	d := headgate.Decision{Allowed: true, Degraded: true, Limit: c.Limit.Capacity()}
	d.Remaining = d.Limit - c.Cost
	if c.Cost > 0 {
		d.Receipt = headgate.Receipt{At: takenNowhere, Units: c.Cost}
	}
	return d
}

// estimate returns when a shard may be back: at its next probe.
func (s *shard) estimate() time.Duration {
	wait := firstProbe
	if s.down.Load() {
		wait = time.Until(time.Unix(0, s.nextProbe.Load()))
	}
	return max(wait, time.Millisecond).Round(time.Microsecond)
}

// localCheck returns what the local limiter is asked.
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

// share returns the part of a limit that one of so many nodes goes by.
func share(l headgate.Limit, nodes int64) headgate.Limit {
	l.Count = max(1, l.Count/nodes)
	if l.Burst == 0 {
		return l
	}
	if l.Burst = max(1, l.Burst/nodes); l.Validate() != nil {
		l.Burst = 0 // it would take too long to refill at this rate
	}
	return l
}

// localDecision returns what the local limiter decided as the guard's decision.
func localDecision(s *shard, d headgate.Decision) headgate.Decision {
	d.Degraded = true
	if d.RetryAfter == headgate.Never { // with the shard back it may pass
		d.RetryAfter = s.estimate()
	}
	d.Receipt = takenLocally(d.Receipt)
	return d
}

// takenNowhere is the At of the receipt of what Open let pass. Those of Local are below it.
const takenNowhere = -1

// takenLocally marks a receipt of the local limiter.
func takenLocally(r headgate.Receipt) headgate.Receipt {
	if r.Units > 0 {
		r.At = takenNowhere - 1 - r.At
	}
	return r
}

// localReceipt returns the local limiter's receipt again.
func localReceipt(r headgate.Receipt) headgate.Receipt {
	r.At = takenNowhere - 1 - r.At
	return r
}
