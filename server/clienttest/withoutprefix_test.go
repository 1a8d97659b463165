package clienttest

import (
	"context"

	"github.com/headgate/headgate"
)

// withoutPrefix removes the prefix by which the service separates keys of the store from keys of rules. The start of a
// staggered window depends on the key, and the conformance suite computes it from the key without the prefix.
type withoutPrefix struct{ headgate.Limiter }

func trim(c headgate.Check) headgate.Check {
	c.Key = c.Key[1:]
	if c.Owner != "" {
		c.Owner = c.Owner[1:]
	}
	return c
}

func (s withoutPrefix) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return s.Limiter.Take(ctx, trim(c))
}

func (s withoutPrefix) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return s.Limiter.Peek(ctx, trim(c))
}

func (s withoutPrefix) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	plain := make([]headgate.Check, len(checks))
	for i := range checks {
		plain[i] = trim(checks[i])
	}
	return s.Limiter.TakeAll(ctx, plain, dst)
}

func (s withoutPrefix) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return s.Limiter.Charge(ctx, trim(c))
}

func (s withoutPrefix) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return s.Limiter.Renew(ctx, trim(c), r)
}

func (s withoutPrefix) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return s.Limiter.Give(ctx, trim(c), r)
}

func (s withoutPrefix) Reset(ctx context.Context, c headgate.Check) error {
	return s.Limiter.Reset(ctx, trim(c))
}
