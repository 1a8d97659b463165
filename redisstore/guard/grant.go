package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// Grant takes units that the caller hands out itself, if the store is a [Granter]; otherwise it returns
// headgate.ErrUnsupported. Deadline and circuit are those of Take.
//
// If the shard cannot be asked, no policy decides, since a policy has no units to grant: the error wraps
// ErrUnavailable, and [Guard.Degrade] decides each request. If too many requests wait, the error is
// headgate.ErrOverloaded. Denials are not remembered, since the caller counts granted units itself.
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
	s := g.shardOf(&c)
	queued, outcome := g.enter(ctx, s)
	if outcome != admission.Admitted {
		return headgate.Decision{}, g.notGranted(ctx, s, outcome)
	}
	broke := false
	defer func() { s.queue.Leave(broke) }()
	k, ok := g.begin(ctx, s, time.Time{}, queued)
	if !ok {
		return headgate.Decision{}, g.notGranted(ctx, s, admission.Unavailable)
	}
	d, err := granter.Grant(k.ctx, c, want, share)
	switch g.end(&k, &c, err) {
	case responded:
		if err == nil && d.Receipt.Units > 0 && g.denials != nil {
			g.gate.Add(g.denials.Hash(&c), -d.Receipt.Units, g.clock.micros())
		}
		return d, err
	case canceled:
		return headgate.Decision{}, ctx.Err()
	case starved:
		return headgate.Decision{}, g.notGranted(ctx, s, admission.Overloaded)
	default:
		broke = true
		return headgate.Decision{}, &Error{Op: "grant", Shard: s.name, Err: err, Sent: true}
	}
}

// notGranted returns the error of a grant that is not sent to the store.
func (g *Guard) notGranted(ctx context.Context, s *shard, outcome admission.Outcome) error {
	switch outcome {
	case admission.Canceled:
		return ctx.Err()
	case admission.Overloaded:
		g.counters.overloaded.Add(1)
		return headgate.ErrOverloaded
	default:
		return &Error{Op: "grant", Shard: s.name, Err: s.lastErr()}
	}
}

// Degrade decides a check by its policy, for a caller whose Grant has failed. The decision is Degraded, and counted
// like those of Take.
func (g *Guard) Degrade(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.validate(ctx, &c); err != nil {
		return headgate.Decision{}, err
	}
	return g.degrade(ctx, g.shardOf(&c), &c)
}
