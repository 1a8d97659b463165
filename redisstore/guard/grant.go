package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// Grant takes units that the caller hands out itself. If the store is not a [Granter], it returns
// headgate.ErrUnsupported. Grant has the same deadline and the same circuit as Take.
//
// If the shard is unavailable, the error wraps ErrUnavailable. No policy decides, because a policy has no units to
// grant; the caller can then call [Guard.Degrade] for each request. If too many requests wait, the error is
// headgate.ErrOverloaded. Denials are not remembered, because the caller counts granted units itself.
func (g *Guard) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	if err := g.validate(ctx, &c); err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	granter, ok := g.inner.(Granter)
	if !ok {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	var d headgate.Decision
	result, err := g.callQueued(ctx, operation{
		name: "grant", shard: g.shardOf(&c), check: &c,
		send: func(ctx context.Context) (err error) {
			d, err = granter.Grant(ctx, c, want, share)
			return err
		},
	})
	if result != responded {
		return headgate.Decision{}, err
	}
	if err == nil && d.Receipt.Units > 0 && g.denials != nil {
		g.gate.Add(g.denials.Hash(&c), -d.Receipt.Units, g.micros())
	}
	return d, err
}

// Degrade decides a check by its policy, for a caller whose Grant has failed. The decision is Degraded, and is counted
// like one of Take.
func (g *Guard) Degrade(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.validate(ctx, &c); err != nil {
		return headgate.Decision{}, err
	}
	return g.decideByPolicy(ctx, g.shardOf(&c), &c)
}
