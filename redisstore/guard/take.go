package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// Take decides one check. See [headgate.Limiter].
func (g *Guard) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.validate(ctx, &c); err != nil {
		return headgate.Decision{}, err
	}
	return g.take(ctx, &c)
}

// take decides a valid check: from the deny cache, by the policy if the circuit is open, or by the store.
func (g *Guard) take(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	if g.denials != nil {
		if d, ok := g.denials.Lookup(g.denials.Hash(c), c, g.micros()); ok {
			g.counters.cacheHits.Add(1)
			return d, nil
		}
	}
	if s := g.shardOf(c); s.circuit.open.Load() {
		return g.decideByPolicy(ctx, s, c)
	}
	b := g.newBatch(ctx)
	b.oneCheck[0] = *c // a copy, so that the check of a deny-cache hit stays on the stack
	b.checks, b.decisions = b.oneCheck[:], b.oneDecision[:]
	err := b.take()
	d := b.oneDecision[0]
	b.release()
	return d, err
}

// TakeAll takes the units of all checks or of none. See [headgate.Limiter]. It calls one shard after another, each at
// most once, until a shard denies. Then it gives back the units of the other shards in the background. If the circuit
// of a check with the policy Closed is open, the checks are denied without a call.
func (g *Guard) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := g.checkOpen(ctx); err != nil {
		return dst, err
	}
	if err := headgate.ValidateCombination(checks); err != nil {
		return dst, err
	}
	for i := range checks {
		if err := checks[i].Validate(); err != nil {
			return dst, err
		}
	}
	switch len(checks) {
	case 0:
		return dst, nil
	case 1:
		d, err := g.take(ctx, &checks[0])
		if err != nil {
			return dst, err
		}
		return append(dst, d), nil
	}
	before := len(dst)
	for range checks {
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	if g.denies(checks, dst[before:]) {
		return dst, nil
	}
	b := g.newBatch(ctx)
	b.checks, b.decisions = checks, dst[before:]
	err := b.take()
	b.release()
	if err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// denies reports whether the deny cache denies one of the checks. It sets the decisions of denied checks.
func (g *Guard) denies(checks []headgate.Check, decisions []headgate.Decision) bool {
	if g.denials == nil {
		return false
	}
	denied := false
	now := g.micros()
	for i := range checks {
		c := &checks[i]
		if d, ok := g.denials.Lookup(g.denials.Hash(c), c, now); ok {
			decisions[i], denied = d, true
		}
	}
	if denied {
		g.counters.cacheHits.Add(1)
	}
	return denied
}
