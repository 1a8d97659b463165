package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// Charge takes the cost even if it exceeds the limit. See [headgate.Limiter].
//
// If the shard is unavailable, the policy Local charges the local limiter. With Open and Closed the charge is lost: the
// decision is Degraded, its receipt is empty, and Stats.ChargesDropped counts it.
func (g *Guard) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.validate(ctx, &c); err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	if c.Limit.Algorithm == headgate.Concurrency {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	s := g.shardOf(&c)
	var d headgate.Decision
	result, err := g.callQueued(ctx, operation{
		name: "charge", shard: s, check: &c,
		send: func(ctx context.Context) (err error) {
			d, err = g.inner.Charge(ctx, c)
			g.changeUnits(&c, -c.Cost)
			return err
		},
	})
	switch result {
	case failed, rejected:
		return g.degradeCharge(ctx, s, &c)
	case starved:
		g.counters.chargesDropped.Add(1)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	return d, nil
}

// degradeCharge decides a charge by the policy of the check.
func (g *Guard) degradeCharge(ctx context.Context, s *shard, c *headgate.Check) (headgate.Decision, error) {
	if c.OnFailure == headgate.Local {
		d, err := g.local.Charge(ctx, g.localCheck(c))
		if err == nil {
			g.count(s, headgate.Local)
			return localDecision(s, d), nil
		}
		if ctx.Err() != nil {
			return headgate.Decision{}, ctx.Err()
		}
		g.counters.localFailures.Add(1)
	}
	g.count(s, c.OnFailure)
	g.counters.chargesDropped.Add(1)
	d := headgate.Decision{Allowed: c.OnFailure != headgate.Closed, Degraded: true, Limit: c.Limit.Capacity()}
	if d.Allowed {
		d.Remaining = d.Limit
	}
	return d, nil
}

// changeUnits records that units were given back to a key or, if they are negative, charged. If the call failed, they
// may have been.
func (g *Guard) changeUnits(c *headgate.Check, units int64) {
	if g.denials == nil {
		return
	}
	hash := g.denials.Hash(c)
	g.denials.Drop(hash, c.Key)
	g.gate.Add(hash, units, g.micros())
}
