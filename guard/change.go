package guard

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// Charge takes the cost whatever the limit says. See [headgate.Limiter].
//
// If the shard cannot be asked, Local charges the local limiter. Open and Closed lose the charge: the decision is
// Degraded, its receipt is empty, and Stats count it.
func (g *Guard) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := g.admit(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	if c.Limit.Algorithm == headgate.Concurrency {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	s := g.shardOf(&c)
	waited, how := g.enter(ctx, s)
	if how != itsTurn {
		return g.uncharged(ctx, s, &c, how)
	}
	broke := false
	defer func() { s.admission.leave(broke) }()
	k, ok := g.begin(ctx, s, time.Time{}, waited)
	if !ok {
		return g.degradeCharge(ctx, s, &c)
	}
	d, err := g.inner.Charge(k.ctx, c)
	g.changed(&c, -c.Cost)
	switch g.end(&k, &c, err) {
	case answered:
		if err != nil {
			return headgate.Decision{}, err
		}
		return d, nil
	case ended:
		return headgate.Decision{}, ctx.Err()
	case starved:
		return g.uncharged(ctx, s, &c, isRefused)
	default:
		broke = true
		return g.degradeCharge(ctx, s, &c)
	}
}

// uncharged ends a charge that the store was not asked for.
func (g *Guard) uncharged(ctx context.Context, s *shard, c *headgate.Check, how standing) (headgate.Decision, error) {
	switch how {
	case hasEnded:
		return headgate.Decision{}, ctx.Err()
	case isRefused:
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

// Renew gives the slot of a concurrency limit another TTL. See [headgate.Limiter].
//
// A slot that a policy took is renewed where it was taken: nowhere, or in the local limiter. If the shard that has a slot
// cannot be asked it returns an error that wraps ErrUnavailable.
func (g *Guard) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	if err := g.admit(ctx); err != nil {
		return false, err
	}
	if err := c.Validate(); err != nil {
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
	case answered:
		return held, err
	case ended:
		return false, ctx.Err()
	default:
		return false, &Error{Op: "renew", Shard: s.name, Err: err, Sent: true}
	}
}

// Give returns units that were taken. See [headgate.Limiter].
//
// What a policy took goes back to where it was taken: nowhere, or the local limiter. What the store took goes to the store
// or, if that does not answer, is lost with an error that wraps ErrUnavailable.
func (g *Guard) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := g.admit(ctx); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return err
	}
	if r.At < 0 {
		return g.giveDegraded(ctx, &c, r)
	}
	s := g.shardOf(&c)
	v, err := g.give(ctx, s, &c, r)
	switch v {
	case answered:
		return err
	case ended:
		return ctx.Err()
	default:
		g.counters.givesDropped.Add(c.Cost)
		return err
	}
}

// giveDegraded returns what a policy took.
func (g *Guard) giveDegraded(ctx context.Context, c *headgate.Check, r headgate.Receipt) error {
	if r.At == takenNowhere {
		return nil
	}
	return g.local.Give(ctx, g.localCheck(c), localReceipt(r))
}

// give returns what the store took.
func (g *Guard) give(ctx context.Context, s *shard, c *headgate.Check, r headgate.Receipt) (verdict, error) {
	k, ok := g.begin(ctx, s, time.Time{}, false)
	if !ok {
		return failed, &Error{Op: "give", Shard: s.name, Err: s.lastErr()}
	}
	err := g.inner.Give(k.ctx, *c, r)
	g.changed(c, c.Cost)
	v := g.end(&k, c, err)
	if v == failed || v == refused {
		err = &Error{Op: "give", Shard: s.name, Err: err, Sent: true}
	}
	return v, err
}

// changed notes that so many units were, or may have been, given back to a key, or charged if that is negative.
func (g *Guard) changed(c *headgate.Check, units int64) {
	if g.denials == nil {
		return
	}
	hash := g.denials.hash(c)
	g.denials.drop(hash, c.Key)
	g.gate.change(hash, units, g.clock.micros())
}

// Reset forgets what was consumed under the check's key, here and in the store. See [headgate.Limiter].
//
// If the shard cannot be asked it returns an error that wraps ErrUnavailable.
func (g *Guard) Reset(ctx context.Context, c headgate.Check) error {
	if err := g.admit(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	return errors.Join(g.reset(ctx, &c), g.local.Reset(ctx, headgate.Check{Key: c.Key, Owner: c.Owner}))
}

// reset forgets in the store.
func (g *Guard) reset(ctx context.Context, c *headgate.Check) error {
	s := g.shardOf(c)
	k, ok := g.begin(ctx, s, time.Time{}, false)
	if !ok {
		return &Error{Op: "reset", Shard: s.name, Err: s.lastErr()}
	}
	err := g.inner.Reset(k.ctx, *c)
	if g.denials != nil {
		hash := g.denials.hash(c)
		g.denials.drop(hash, c.Key)
		g.gate.forget(hash, g.clock.micros())
	}
	switch g.end(&k, c, err) {
	case answered:
		return err
	case ended:
		return ctx.Err()
	default:
		return &Error{Op: "reset", Shard: s.name, Err: err, Sent: true}
	}
}
