package guard

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// Charge takes the cost even if it exceeds the limit. See [headgate.Limiter].
//
// If the shard cannot be asked, the policy Local charges the local limiter. Open and Closed lose the charge: the
// decision is Degraded, its receipt is empty, and Stats count it.
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
	queued, outcome := g.enter(ctx, s)
	if outcome != admission.Admitted {
		return g.notCharged(ctx, s, &c, outcome)
	}
	broke := false
	defer func() { s.queue.Leave(broke) }()
	k, ok := g.begin(ctx, s, time.Time{}, queued)
	if !ok {
		return g.degradeCharge(ctx, s, &c)
	}
	d, err := g.inner.Charge(k.ctx, c)
	g.changeUnits(&c, -c.Cost)
	switch g.end(&k, &c, err) {
	case responded:
		if err != nil {
			return headgate.Decision{}, err
		}
		return d, nil
	case canceled:
		return headgate.Decision{}, ctx.Err()
	case starved:
		return g.notCharged(ctx, s, &c, admission.Overloaded)
	default:
		broke = true
		return g.degradeCharge(ctx, s, &c)
	}
}

// notCharged ends a charge that is not sent to the store.
func (g *Guard) notCharged(
	ctx context.Context, s *shard, c *headgate.Check, outcome admission.Outcome,
) (headgate.Decision, error) {
	switch outcome {
	case admission.Canceled:
		return headgate.Decision{}, ctx.Err()
	case admission.Overloaded:
		g.counters.overloaded.Add(1)
		g.counters.chargesDropped.Add(1)
		return headgate.Decision{}, headgate.ErrOverloaded
	default:
		return g.degradeCharge(ctx, s, c)
	}
}

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

// Renew extends the lease of a concurrency limit by another TTL. See [headgate.Limiter].
//
// A slot that a policy took is renewed where it was taken: nowhere, or in the local limiter. If the shard of a slot
// cannot be asked, Renew returns an error that wraps ErrUnavailable.
func (g *Guard) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	if err := g.validate(ctx, &c); err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return false, err
	}
	switch {
	case c.Limit.Algorithm != headgate.Concurrency:
		return false, headgate.ErrUnsupported
	case r.At == takenNowhere:
		return true, nil
	case r.At < 0:
		return g.local.Renew(ctx, g.localCheck(&c), localReceipt(r))
	}
	s := g.shardOf(&c)
	k, ok := g.begin(ctx, s, time.Time{}, false)
	if !ok {
		return false, &Error{Op: "renew", Shard: s.name, Err: s.lastErr()}
	}
	held, err = g.inner.Renew(k.ctx, c, r)
	switch g.end(&k, &c, err) {
	case responded:
		return held, err
	case canceled:
		return false, ctx.Err()
	default:
		return false, &Error{Op: "renew", Shard: s.name, Err: err, Sent: true}
	}
}

// Give returns units that were taken. See [headgate.Limiter].
//
// Units that a policy took go back to where they were taken: nowhere, or the local limiter. Units from the store go
// back to the store or, if it does not respond, are lost with an error that wraps ErrUnavailable.
func (g *Guard) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := g.validate(ctx, &c); err != nil {
		return err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return err
	}
	if r.At < 0 {
		return g.giveDegraded(ctx, &c, r)
	}
	s := g.shardOf(&c)
	result, err := g.give(ctx, s, &c, r)
	switch result {
	case responded:
		return err
	case canceled:
		return ctx.Err()
	default:
		g.counters.givesDropped.Add(c.Cost)
		return err
	}
}

// giveDegraded returns units that a policy took.
func (g *Guard) giveDegraded(ctx context.Context, c *headgate.Check, r headgate.Receipt) error {
	if r.At == takenNowhere {
		return nil
	}
	return g.local.Give(ctx, g.localCheck(c), localReceipt(r))
}

// give returns units to the store.
func (g *Guard) give(ctx context.Context, s *shard, c *headgate.Check, r headgate.Receipt) (result, error) {
	k, ok := g.begin(ctx, s, time.Time{}, false)
	if !ok {
		return failed, &Error{Op: "give", Shard: s.name, Err: s.lastErr()}
	}
	err := g.inner.Give(k.ctx, *c, r)
	g.changeUnits(c, c.Cost)
	result := g.end(&k, c, err)
	if result == failed || result == refused {
		err = &Error{Op: "give", Shard: s.name, Err: err, Sent: true}
	}
	return result, err
}

// changeUnits records that units were, or may have been, given back to a key, or charged if they are negative.
func (g *Guard) changeUnits(c *headgate.Check, units int64) {
	if g.denials == nil {
		return
	}
	hash := g.denials.Hash(c)
	g.denials.Drop(hash, c.Key)
	g.gate.Add(hash, units, g.clock.micros())
}

// Reset forgets what was consumed under the check's key, here and in the store. See [headgate.Limiter].
//
// If the shard cannot be asked, Reset returns an error that wraps ErrUnavailable.
func (g *Guard) Reset(ctx context.Context, c headgate.Check) error {
	if err := g.checkOpen(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	return errors.Join(g.reset(ctx, &c), g.local.Reset(ctx, headgate.Check{Key: c.Key, Owner: c.Owner}))
}

// reset resets a key in the store.
func (g *Guard) reset(ctx context.Context, c *headgate.Check) error {
	s := g.shardOf(c)
	k, ok := g.begin(ctx, s, time.Time{}, false)
	if !ok {
		return &Error{Op: "reset", Shard: s.name, Err: s.lastErr()}
	}
	err := g.inner.Reset(k.ctx, *c)
	if g.denials != nil {
		hash := g.denials.Hash(c)
		g.denials.Drop(hash, c.Key)
		g.gate.Reset(hash, g.clock.micros())
	}
	switch g.end(&k, c, err) {
	case responded:
		return err
	case canceled:
		return ctx.Err()
	default:
		return &Error{Op: "reset", Shard: s.name, Err: err, Sent: true}
	}
}
