package client

import (
	"context"

	"github.com/headgate/headgate"
)

// An unsigned store takes the sign from keys by which the service keeps them apart from those of rules. When a
// staggered window begins depends on the key, and the suite knows when that is for keys as it names them.
type unsigned struct{ headgate.Limiter }

func without(c headgate.Check) headgate.Check {
	c.Key = c.Key[1:]
	if c.Owner != "" {
		c.Owner = c.Owner[1:]
	}
	return c
}

func (u unsigned) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return u.Limiter.Take(ctx, without(c))
}

func (u unsigned) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	plain := make([]headgate.Check, len(checks))
	for i := range checks {
		plain[i] = without(checks[i])
	}
	return u.Limiter.TakeAll(ctx, plain, dst)
}

func (u unsigned) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return u.Limiter.Charge(ctx, without(c))
}

func (u unsigned) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return u.Limiter.Renew(ctx, without(c), r)
}

func (u unsigned) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return u.Limiter.Give(ctx, without(c), r)
}

func (u unsigned) Reset(ctx context.Context, c headgate.Check) error {
	return u.Limiter.Reset(ctx, without(c))
}
