package guard

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
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
	var hash uint64
	if g.denials != nil {
		hash = g.denials.Hash(c)
		if d, ok := g.denials.Lookup(hash, c, g.clock.micros()); ok {
			g.counters.cacheHits.add()
			return d, nil
		}
	}
	s := g.shardOf(c)
	if s.circuit.open.Load() {
		return g.degrade(ctx, s, c)
	}
	return g.takeFromStore(ctx, s, hash, c)
}

// A single is a check that is sent to the store alone. Its memory is pooled, to save garbage collections.
type single struct {
	check   headgate.Check
	pending [1]pendingCheck
}

// takeFromStore takes from the store.
func (g *Guard) takeFromStore(
	ctx context.Context, s *shard, hash uint64, check *headgate.Check,
) (headgate.Decision, error) {
	one, ok := g.singles.Get().(*single)
	if !ok {
		one = new(single)
	}
	one.check = *check // a copy, so that the check of a deny-cache hit stays on the stack
	one.pending[0] = pendingCheck{check: &one.check, hash: hash}
	d, err := g.takeSingle(ctx, s, one)
	*one = single{}
	g.singles.Put(one)
	return d, err
}

func (g *Guard) takeSingle(ctx context.Context, s *shard, one *single) (headgate.Decision, error) {
	c, pending := &one.check, one.pending[:]
	queued, outcome := g.enter(ctx, s)
	if outcome != admission.Admitted {
		return g.notAdmitted(ctx, s, c, outcome)
	}
	broke := false
	defer func() { s.queue.Leave(broke) }()
	if queued && g.denials != nil {
		if _, d, denied := g.learnedDenial(pending, 0, admission.Wake{}); denied {
			return d, nil
		}
	}
	turns := g.awaitTurns(ctx, s, pending)
	switch turns.outcome {
	case admission.Admitted:
	case admission.Denied:
		return turns.decision, nil
	default:
		return g.notAdmitted(ctx, s, c, turns.outcome)
	}
	defer g.releaseTurns(pending) // in case the store panics; otherwise they have ended
	k, ok := g.begin(ctx, s, turns.since, queued)
	if !ok {
		g.releaseTurns(pending)
		return g.degrade(ctx, s, c)
	}
	asked := g.markSent(pending)
	d, err := g.inner.Take(k.ctx, *c)
	switch g.end(&k, c, err) {
	case responded:
		if err != nil {
			return headgate.Decision{}, err
		}
		g.learn(pending, asked, []headgate.Decision{d})
		return d, nil
	case canceled:
		return headgate.Decision{}, ctx.Err()
	case starved:
		return g.notAdmitted(ctx, s, c, admission.Overloaded)
	default:
		broke = true
		g.failTurns(pending)
		return g.degrade(ctx, s, c)
	}
}

// notAdmitted decides a check that is not sent to the store.
func (g *Guard) notAdmitted(
	ctx context.Context, s *shard, c *headgate.Check, outcome admission.Outcome,
) (headgate.Decision, error) {
	switch outcome {
	case admission.Canceled:
		return headgate.Decision{}, ctx.Err()
	case admission.Overloaded:
		g.counters.overloaded.Add(1)
		return headgate.Decision{}, headgate.ErrOverloaded
	default:
		return g.degrade(ctx, s, c)
	}
}
