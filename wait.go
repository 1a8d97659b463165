package headgate

import (
	"context"
	"fmt"
	"time"
)

// Wait takes c as soon as l allows it, and then holds for the Decision's Delay. It returns at once, having taken
// nothing, with an error that wraps context.DeadlineExceeded when ctx would end before that, and with ErrNever when the
// cost can never pass. Units taken for a Delay that ctx cuts short are given back. It refuses concurrency limits with
// ErrUnsupported, since nobody could release the place that it took: Take them, and keep the receipt.
//
// Waiters are not queued: when several wait on one key, whoever asks first after units come back takes them. Use package
// pacer where order matters.
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
			if err := sleep(ctx, max(d.RetryAfter, time.Microsecond)); err != nil {
				return fmt.Errorf("wait for %s: %w", quote(c.Key), err)
			}
			continue
		}
		if d.Delay <= 0 {
			return nil
		}
		if err := sleep(ctx, d.Delay); err != nil {
			if giveErr := returnTurn(ctx, l, c, d); giveErr != nil {
				return fmt.Errorf("wait for %s: %w (giving back: %w)", quote(c.Key), err, giveErr)
			}
			return fmt.Errorf("wait for %s: %w", quote(c.Key), err)
		}
		return nil
	}
}

// returnTurn returns the units of a caller that gives up before its turn. A limiter that is called over a network has a
// second for it, even if ctx has ended.
func returnTurn(ctx context.Context, l Limiter, c Check, d Decision) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	c.Cost = d.Receipt.Units
	return l.Give(ctx, c, d.Receipt.Delayed(d.Delay))
}

// sleep waits for d, or returns at once if ctx cannot last that long.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("%s is needed: %w", d, context.DeadlineExceeded)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
