package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// A Granter is a store that lets units be taken ahead of their use. See redisstore.Store.Grant.
type Granter interface {
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
}

// Grant takes units that the caller will hand out by himself, if the store is a [Granter]; else it returns
// headgate.ErrUnsupported. Deadline and circuit are those of Take.
//
// No policy decides when the shard cannot be asked, for a policy can let a request pass but has no units to give: the error
// then wraps ErrUnavailable, and [Guard.Degrade] decides each request. If too many requests wait, the error is
// headgate.ErrOverloaded, and no policy decides. Denials are not remembered either: who asks for
// grants keeps account himself.
func (g *Guard) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	if err := g.admit(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	granter, ok := g.inner.(Granter)
	if !ok {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	s := g.shardOf(&c)
	waited, how := g.enter(ctx, s)
	if how != itsTurn {
		return headgate.Decision{}, g.ungranted(ctx, s, how)
	}
	broke := false
	defer func() { s.admission.leave(broke) }()
	k, ok := g.begin(ctx, s, time.Time{}, waited)
	if !ok {
		return headgate.Decision{}, g.ungranted(ctx, s, cannotAsk)
	}
	d, err := granter.Grant(k.ctx, c, want, share)
	switch g.end(&k, &c, err) {
	case answered:
		if err == nil && d.Receipt.Units > 0 && g.denials != nil {
			g.gate.change(g.denials.hash(&c), -d.Receipt.Units, g.clock.micros())
		}
		return d, err
	case ended:
		return headgate.Decision{}, ctx.Err()
	case starved:
		return headgate.Decision{}, g.ungranted(ctx, s, isRefused)
	default:
		broke = true
		return headgate.Decision{}, &Error{Op: "grant", Shard: s.name, Err: err, Sent: true}
	}
}

// ungranted returns the error of a grant that the store was not asked for.
func (g *Guard) ungranted(ctx context.Context, s *shard, how standing) error {
	switch how {
	case hasEnded:
		return ctx.Err()
	case isRefused:
		g.counters.overloaded.Add(1)
		return headgate.ErrOverloaded
	default:
		return &Error{Op: "grant", Shard: s.name, Err: s.lastErr()}
	}
}

// Degrade decides a check by its policy, without asking the store: for one who has just asked it and got no answer. The
// decision is Degraded, and counted as those of Take are.
func (g *Guard) Degrade(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.admit(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err
	}
	return g.degrade(ctx, g.shardOf(&c), &c)
}
