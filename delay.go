package headgate

import (
	"context"
	"fmt"
	"math/bits"
	"time"
)

// Delay takes the cost at once, even if fewer units remain, and returns in Decision.Delay how long to wait before using
// the units. It is for callers that schedule work instead of blocking in [Wait]. A caller that gives up calls Give with
// Receipt.Delayed(Delay).
//
// The check is denied and takes nothing if the cost can never pass, if the key's debt would exceed MaxDebt, or if the
// queue of a leaky-bucket is full. For algorithms without a burst, Delay returns ErrUnsupported: only a bucket says
// when a debt is repaid.
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
	if !c.Limit.Algorithm.has(burstSetting) {
		return Decision{}, fmt.Errorf("delay %s: %w", quote(c.Key), ErrUnsupported)
	}
	if c.Limit.Algorithm == LeakyBucket || c.Cost > c.Limit.Capacity() {
		return l.Take(ctx, c) // Take computes the Delay of a leaky-bucket, and denies a cost above the capacity
	}
	d, err := l.Charge(ctx, c)
	if err != nil || d.Degraded || d.Allowed {
		return d, err
	}
	if d.Receipt.Units == c.Cost {
		// The debt is repaid when the level has drained to the capacity. ResetAfter is the time until it has drained to 0.
		// A second call to the limiter would return a time that includes the debts of later callers.
		d.Allowed, d.Delay = true, max(0, d.ResetAfter-c.Limit.timeToFill())
		return d, nil
	}
	if d.Receipt.Units > 0 { // fewer than the cost, because the debt reached MaxDebt
		if err := giveBack(ctx, l, c, d); err != nil {
			return Decision{}, fmt.Errorf("delay %s: give back: %w", quote(c.Key), err)
		}
	}
	return l.Take(ctx, c)
}

// timeToFill returns the time in which a full bucket drains, which is also the time in which an empty token bucket
// refills. It is rounded down to a microsecond.
func (l Limit) timeToFill() time.Duration {
	hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(l.Period.Microseconds()))
	micros, _ := bits.Div64(hi, lo, uint64(l.Count)) // at most 2^49: see maxBurst
	return time.Duration(micros) * time.Microsecond
}
