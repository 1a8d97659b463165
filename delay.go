package headgate

import (
	"context"
	"fmt"
)

// Delay takes the cost now even if it is not there yet, and says in Decision.Delay how long to wait before using it:
// for callers that schedule work instead of blocking in [Wait]. A caller that gives up calls Give with
// Receipt.Delayed(Delay).
//
// It is denied and takes nothing if the cost can never pass, or if the key is so deep in debt that MaxDebt would be
// exceeded; a leaky-bucket is denied when its queue is full. It returns ErrUnsupported for algorithms without a burst:
// only buckets carry units over to a later time.
func Delay(ctx context.Context, l Limiter, c Check) (Decision, error) {
	if ctx == nil {
		return Decision{}, ErrNilContext
	}
	if c.Limit.Algorithm >= FirstCustom {
		return Decision{}, fmt.Errorf("delay %s: %w", quote(c.Key), ErrUnsupported)
	}
	if err := c.Validate(); err != nil {
		return Decision{}, err
	}
	if !c.Limit.Algorithm.has(ownBurst) {
		return Decision{}, fmt.Errorf("delay %s: %w", quote(c.Key), ErrUnsupported)
	}
	if c.Limit.Algorithm == LeakyBucket || c.Cost > c.Limit.Capacity() {
		return l.Take(ctx, c) // a leaky-bucket has delays of its own
	}
	d, err := l.Charge(ctx, c)
	if err != nil || d.Degraded || d.Allowed {
		return d, err
	}
	left := c
	left.Cost = 0
	if d.Receipt.Units == c.Cost {
		debt, err := l.Peek(ctx, left)
		d.Allowed, d.Delay = true, debt.RetryAfter
		return d, err
	}
	if left.Cost = d.Receipt.Units; left.Cost > 0 {
		if err := l.Give(ctx, left, d.Receipt); err != nil {
			return Decision{}, fmt.Errorf("delay %s: give back: %w", quote(c.Key), err)
		}
	}
	return l.Peek(ctx, c)
}
