package limittest

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// Allowing returns a Limiter for tests of code that is limited: it allows every valid check and counts nothing.
func Allowing() headgate.Limiter { return fixedLimiter{allowed: true} }

// Denying returns a Limiter for tests of code that is limited: it denies every valid check with the given RetryAfter.
func Denying(retryAfter time.Duration) headgate.Limiter { return fixedLimiter{retryAfter: retryAfter} }

// fixedLimiter is a Limiter that makes the same decision on every check.
type fixedLimiter struct {
	allowed    bool
	retryAfter time.Duration
}

var _ headgate.Limiter = fixedLimiter{}

// decide returns the decision on a check. If it is allowed, its receipt has the units of the check.
func (f fixedLimiter) decide(c headgate.Check) headgate.Decision {
	d := headgate.Decision{
		Allowed: f.allowed, Limit: c.Limit.Capacity(), RetryAfter: f.retryAfter, ResetAfter: f.retryAfter,
	}
	if f.allowed {
		d.Remaining = d.Limit
		d.Receipt = headgate.Receipt{At: Start.UnixMicro(), Units: c.Cost}
		if c.Limit.Algorithm == headgate.Concurrency {
			d.Receipt.Lease = 1
		}
	}
	return d
}

func (f fixedLimiter) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := contextError(ctx, c.Validate()); err != nil {
		return headgate.Decision{}, err
	}
	return f.decide(c), nil
}

func (f fixedLimiter) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := contextError(ctx, c.ValidatePeek()); err != nil {
		return headgate.Decision{}, err
	}
	d := f.decide(c)
	d.Receipt = headgate.Receipt{}
	return d, nil
}

func (f fixedLimiter) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := contextError(ctx, headgate.ValidateCombination(checks)); err != nil {
		return dst, err
	}
	for _, c := range checks {
		if err := c.Validate(); err != nil {
			return dst, err
		}
	}
	for _, c := range checks {
		dst = append(dst, f.decide(c))
	}
	return dst, nil
}

func (f fixedLimiter) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return f.Take(ctx, c)
}

func (f fixedLimiter) Renew(ctx context.Context, c headgate.Check, _ headgate.Receipt) (bool, error) {
	return f.allowed, contextError(ctx, c.Validate())
}

func (f fixedLimiter) Give(ctx context.Context, c headgate.Check, _ headgate.Receipt) error {
	return contextError(ctx, c.Validate())
}

func (f fixedLimiter) Reset(ctx context.Context, c headgate.Check) error {
	return contextError(ctx, headgate.ValidateKey(c.Key))
}

// contextError returns the error of a nil or ended context, otherwise err.
func contextError(ctx context.Context, err error) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
