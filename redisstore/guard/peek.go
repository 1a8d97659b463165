package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// Peek returns the decision that Take would return now, and takes nothing. See [headgate.Limiter].
//
// Peek calls the store even if the deny cache has a denial for the check. If the shard is unavailable, the policy
// decides.
func (g *Guard) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.checkOpen(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if err := c.ValidatePeek(); err != nil {
		return headgate.Decision{}, err
	}
	s := g.shardOf(&c)
	var d headgate.Decision
	result, err := g.callQueued(ctx, operation{
		name: "peek", shard: s, check: &c,
		send: func(ctx context.Context) (err error) {
			d, err = g.inner.Peek(ctx, c)
			return err
		},
	})
	if result == failed || result == rejected {
		return g.degradePeek(ctx, s, &c)
	}
	if err != nil {
		return headgate.Decision{}, err
	}
	return d, nil
}

// degradePeek decides a peek by the policy of the check.
func (g *Guard) degradePeek(ctx context.Context, s *shard, c *headgate.Check) (headgate.Decision, error) {
	d, denied := decideWithoutCounter(s, c)
	if !denied && c.OnFailure == headgate.Local {
		local, err := g.local.Peek(ctx, g.localCheck(c))
		if err == nil {
			g.count(s, headgate.Local)
			return localDecision(s, local), nil
		}
		if ctx.Err() != nil {
			return headgate.Decision{}, ctx.Err()
		}
		g.counters.localFailures.Add(1)
	}
	if d.Allowed {
		d.Remaining, d.Receipt = d.Limit, headgate.Receipt{}
	}
	g.count(s, c.OnFailure)
	return d, nil
}
