package guard

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
)

// Renew extends the lease of a concurrency limit by another TTL. See [headgate.Limiter].
//
// If the policy Open admitted the request, there is no slot to renew, and Renew returns true. If the policy Local
// admitted it, the local limiter renews the slot. If the shard of a slot is unavailable, Renew returns an error that
// wraps ErrUnavailable.
func (g *Guard) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	if err := g.validateReceipt(ctx, &c, r); err != nil {
		return false, err
	}
	switch {
	case c.Limit.Algorithm != headgate.Concurrency:
		return false, headgate.ErrUnsupported
	case r.At == atNowhere:
		return true, nil
	case r.At < 0:
		return g.local.Renew(ctx, g.localCheck(&c), localReceipt(r))
	}
	_, err = g.call(ctx, operation{
		name: "renew", shard: g.shardOf(&c), check: &c,
		send: func(ctx context.Context) (err error) {
			held, err = g.inner.Renew(ctx, c, r)
			return err
		},
	})
	return held && err == nil, err
}

// Give returns units that were taken. See [headgate.Limiter].
//
// If the policy Open admitted the request, no units were taken, and Give does nothing. Units that the policy Local took
// go back to the local limiter. All other units go back to the store. If the store does not respond, they are lost, and
// the error wraps ErrUnavailable.
func (g *Guard) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := g.validateReceipt(ctx, &c, r); err != nil {
		return err
	}
	switch {
	case r.At == atNowhere:
		return nil
	case r.At < 0:
		return g.local.Give(ctx, g.localCheck(&c), localReceipt(r))
	}
	result, err := g.give(ctx, g.shardOf(&c), &c, r)
	if result != responded && result != canceled {
		g.counters.unitsNotReturned.Add(c.Cost)
	}
	return err
}

// give returns units to the store.
func (g *Guard) give(ctx context.Context, s *shard, c *headgate.Check, r headgate.Receipt) (result, error) {
	return g.call(ctx, operation{
		name: "give", shard: s, check: c,
		send: func(ctx context.Context) error {
			err := g.inner.Give(ctx, *c, r)
			g.changeUnits(c, c.Cost)
			return err
		},
	})
}

func (g *Guard) validateReceipt(ctx context.Context, c *headgate.Check, r headgate.Receipt) error {
	if err := g.validate(ctx, c); err != nil {
		return err
	}
	return headgate.ValidateRefund(c.Cost, r)
}

// Reset clears the consumption of the check's key, in the store and in the local limiter. See [headgate.Limiter].
//
// If the shard is unavailable, Reset returns an error that wraps ErrUnavailable.
func (g *Guard) Reset(ctx context.Context, c headgate.Check) error {
	if err := g.checkOpen(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	_, err := g.call(ctx, operation{
		name: "reset", shard: g.shardOf(&c), check: &c,
		send: func(ctx context.Context) error {
			err := g.inner.Reset(ctx, c)
			if g.denials != nil {
				hash := g.denials.Hash(&c)
				g.denials.Drop(hash, c.Key)
				g.gate.Reset(hash, g.micros())
			}
			return err
		},
	})
	return errors.Join(err, g.local.Reset(ctx, headgate.Check{Key: c.Key, Owner: c.Owner}))
}
