package headgate

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/renewal"
)

// Hold waits until a slot of a concurrency limit is free and takes it. It renews the slot until release is called, so
// that a holder may take longer than the limit's TTL, and the slot of a process that crashes becomes free after the
// TTL. release must be called once; more calls do nothing. The slot outlives ctx, which only bounds the wait.
//
// Waiters are not queued. For other algorithms Hold returns ErrUnsupported: use Wait.
func Hold(ctx context.Context, l Limiter, c Check) (release func(), err error) {
	if ctx == nil {
		return nil, ErrNilContext
	}
	if c.Limit.Algorithm != Concurrency {
		return nil, fmt.Errorf("hold %s: %w", quote(c.Key), ErrUnsupported)
	}
	d, err := takeSlot(ctx, l, c)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", quote(c.Key), err)
	}
	background := context.WithoutCancel(ctx)
	var renewals renewal.Renewal
	renewals.Start(clock.System, cmp.Or(c.Limit.TTL, DefaultTTL), func() {
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		// A slot that could not be renewed is tried again before it expires, and taken again after that.
		_, _ = l.Renew(ctx, c, d.Receipt)
	})
	return sync.OnceFunc(func() {
		renewals.Stop()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		// A slot that could not be released becomes free after its TTL.
		_ = l.Give(ctx, c, d.Receipt)
	}), nil
}

// The time between two attempts to take a slot grows from minSlotWait to maxSlotWait.
const (
	minSlotWait = time.Millisecond
	maxSlotWait = 50 * time.Millisecond
)

// takeSlot takes a slot as soon as there is one. The RetryAfter of a denial is when a slot expires, but most are
// released before that.
func takeSlot(ctx context.Context, l Limiter, c Check) (Decision, error) {
	for wait := minSlotWait; ; wait = min(2*wait, maxSlotWait) {
		d, err := l.Take(ctx, c)
		if err != nil || d.Allowed {
			return d, err
		}
		if d.RetryAfter == Never {
			return d, fmt.Errorf("%d of %d slots: %w", c.Cost, d.Limit, ErrNever)
		}
		if err := clock.Sleep(ctx, clock.System, min(wait, max(d.RetryAfter, time.Microsecond))); err != nil {
			return Decision{}, err
		}
	}
}

// Do waits until the check is allowed, and returns the error of f. Under a concurrency limit the slot is held until f
// returns; see [Hold]. For other limits see [Wait].
func Do(ctx context.Context, l Limiter, c Check, f func() error) error {
	if c.Limit.Algorithm != Concurrency {
		if err := Wait(ctx, l, c); err != nil {
			return err
		}
		return f()
	}
	release, err := Hold(ctx, l, c)
	if err != nil {
		return err
	}
	defer release()
	return f()
}
