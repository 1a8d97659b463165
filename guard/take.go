package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// Take decides one check. See [headgate.Limiter].
func (g *Guard) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.admit(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err
	}
	return g.take(ctx, &c)
}

// take decides a valid check: from the deny cache, by the policy if the store is down, or by the store.
func (g *Guard) take(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	var hash uint64
	if g.denials != nil {
		hash = g.denials.hash(c)
		if d, ok := g.denials.lookup(hash, c, g.clock.micros()); ok {
			g.counters.cacheHits.add()
			return d, nil
		}
	}
	s := g.shardOf(c)
	if s.down.Load() {
		return g.degrade(ctx, s, c)
	}
	return g.askOne(ctx, s, hash, c)
}

// An only is a check that is sent to the store alone. Its memory is pooled, to save garbage collections.
type only struct {
	check headgate.Check
	asks  [1]ask
}

func (g *Guard) only(c *headgate.Check, hash uint64) *only {
	o, ok := g.onlys.Get().(*only)
	if !ok {
		o = new(only)
	}
	o.check = *c
	o.asks[0] = ask{check: &o.check, hash: hash}
	return o
}

// askOne asks the store for a decision.
func (g *Guard) askOne(ctx context.Context, s *shard, hash uint64, check *headgate.Check) (headgate.Decision, error) {
	o := g.only(check, hash) // a copy, so that the check of a deny-cache hit stays on the stack
	d, err := g.askOnly(ctx, s, o)
	*o = only{}
	g.onlys.Put(o)
	return d, err
}

func (g *Guard) askOnly(ctx context.Context, s *shard, o *only) (headgate.Decision, error) {
	c, asks := &o.check, o.asks[:]
	waited, how := g.enter(ctx, s)
	if how != itsTurn {
		return g.unasked(ctx, s, c, how)
	}
	failed := false
	defer func() { s.admission.leave(failed) }()
	if waited && g.denials != nil {
		if _, d, denied := g.news(asks, 0, wake{}); denied {
			return d, nil
		}
	}
	_, d, since, how := g.line(ctx, s, asks)
	switch how {
	case itsTurn:
	case isDenied:
		return d, nil
	default:
		return g.unasked(ctx, s, c, how)
	}
	defer g.leave(asks) // in case the store panics; otherwise it has left already
	k, ok := g.begin(ctx, s, since, waited)
	if !ok {
		g.leave(asks)
		return g.degrade(ctx, s, c)
	}
	asked := g.ready(asks)
	var err error
	d, err = g.inner.Take(k.ctx, *c)
	switch g.end(&k, c, err) {
	case answered:
		if err != nil {
			return headgate.Decision{}, err
		}
		g.learn(asks, asked, []headgate.Decision{d})
		return d, nil
	case ended:
		return headgate.Decision{}, ctx.Err()
	case starved:
		return g.unasked(ctx, s, c, isRefused)
	default:
		failed = true
		g.fail(asks)
		return g.degrade(ctx, s, c)
	}
}

// unasked decides a check without the store.
func (g *Guard) unasked(ctx context.Context, s *shard, c *headgate.Check, how standing) (headgate.Decision, error) {
	switch how {
	case hasEnded:
		return headgate.Decision{}, ctx.Err()
	case isRefused:
		g.counters.overloaded.Add(1)
		return headgate.Decision{}, headgate.ErrOverloaded
	default:
		return g.degrade(ctx, s, c)
	}
}

// ready records the generations of the deny cache just before the store is asked, and returns the time.
func (g *Guard) ready(asks []ask) int64 {
	if g.denials == nil {
		return 0
	}
	for i := range asks {
		asks[i].gen = g.denials.gen(asks[i].hash).Load()
	}
	return g.clock.micros()
}
