package headgate

import (
	"context"
	"fmt"
	"time"
)

// Wait takes the cost of c as soon as l allows it, and then waits for the Decision's Delay. If the deadline of ctx is
// too early for that, Wait takes nothing and returns at once; the error wraps context.DeadlineExceeded. If the cost can
// never pass, the error wraps ErrNever. If ctx ends during the Delay, Wait gives the units back. For concurrency limits
// it returns ErrUnsupported: use [Hold].
//
// Waiters are not queued: if several wait for one key, the first to call Take after units become available gets them.
// Use package pacer where order matters.
func Wait(ctx context.Context, l Limiter, c Check) error {
	if ctx == nil {
		return ErrNilContext
	}
	if c.Limit.Algorithm == Concurrency {
		return fmt.Errorf("wait for %s: %w", quote(c.Key), ErrUnsupported)
	}
	for {
		d, err := l.Take(ctx, c)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", quote(c.Key), err)
		}
		if !d.Allowed {
			if d.RetryAfter == Never {
				return fmt.Errorf("wait for %s: cost %d of a limit of %d: %w", quote(c.Key), c.Cost, d.Limit, ErrNever)
			}
			if err := sleep(ctx, retryTime(d)); err != nil {
				return fmt.Errorf("wait for %s: %w", quote(c.Key), err)
			}
			continue
		}
		if d.Delay <= 0 {
			return nil
		}
		if err := sleep(ctx, d.Delay); err != nil {
			if giveErr := giveBack(ctx, l, c, d); giveErr != nil {
				return fmt.Errorf("wait for %s: %w (giving back: %w)", quote(c.Key), err, giveErr)
			}
			return fmt.Errorf("wait for %s: %w", quote(c.Key), err)
		}
		return nil
	}
}

// retryTime returns how long to wait after a denial before the next attempt. A denial by a failure policy has no
// RetryAfter; retryTime then returns a millisecond, so that the caller does not spin.
func retryTime(d Decision) time.Duration {
	if d.RetryAfter <= 0 {
		return time.Millisecond
	}
	return d.RetryAfter
}

// detach returns a context with the values of ctx that ends after a second, for calls that must be made even if ctx has
// ended. They need a timeout, because the limiter may be on another host.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}

// giveBack gives back the units of a caller that gives up during its Delay, even if ctx has ended.
func giveBack(ctx context.Context, l Limiter, c Check, d Decision) error {
	ctx, cancel := detach(ctx)
	defer cancel()
	c.Cost = d.Receipt.Units
	return l.Give(ctx, c, d.Receipt.Delayed(d.Delay))
}

// sleep waits for d, or returns an error at once if the deadline of ctx is earlier.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("%s is needed: %w", d, context.DeadlineExceeded)
	}
	return pause(ctx, d)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
