package headgate

import (
	"context"
	"fmt"
	"math/bits"
	"time"
)

// Delay takes the cost now even if it exceeds what remains, and returns in Decision.Delay how long to wait before using
// it. It is for callers that schedule work instead of blocking in [Wait]. A caller that gives up calls Give with
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
	if !c.Limit.Algorithm.has(burstSetting) {
		return Decision{}, fmt.Errorf("delay %s: %w", quote(c.Key), ErrUnsupported)
	}
	if c.Limit.Algorithm == LeakyBucket || c.Cost > c.Limit.Capacity() {
		return l.Take(ctx, c) // a leaky-bucket has delays of its own
	}
	d, err := l.Charge(ctx, c)
	if err != nil || d.Degraded || d.Allowed {
		return d, err
	}
	if d.Receipt.Units == c.Cost {
		// The debt is repaid when no more than the capacity is left to drain. A second call to the limiter would see the
		// debts of callers that came in between.
		d.Allowed, d.Delay = true, max(0, d.ResetAfter-c.Limit.timeToFill())
		return d, nil
	}
	if d.Receipt.Units > 0 {
		if err := giveBack(ctx, l, c, d); err != nil {
			return Decision{}, fmt.Errorf("delay %s: give back: %w", quote(c.Key), err)
		}
	}
	return l.Take(ctx, c)
}

// timeToFill returns the time in which an empty bucket refills, rounded down to a microsecond.
func (l Limit) timeToFill() time.Duration {
	hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(l.Period.Microseconds()))
	micros, _ := bits.Div64(hi, lo, uint64(l.Count)) // at most 2^49: see maxBurst
	return time.Duration(micros) * time.Microsecond
}
