package headgate

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Hold waits until a slot of a concurrency limit is free and takes it. It renews the slot until release is called, so a
// caller may hold it for longer than the limit's TTL. If the process crashes, the slot becomes free after the TTL.
// release must be called at least once; more calls do nothing. ctx bounds only the wait: the slot is still held after
// ctx has ended.
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
	h := &heldSlot{ctx: ctx, limiter: l, check: c, receipt: d.Receipt}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.interval(), h.renew)
	return h.release, nil
}

// A heldSlot is a slot that is renewed until it is released.
type heldSlot struct {
	ctx     context.Context // the one passed to Hold; only its values are used
	limiter Limiter
	check   Check
	receipt Receipt

	mu       sync.Mutex // locked during a renewal, so that no renewal follows the release
	timer    *time.Timer
	released bool
}

// interval returns the time between two renewals. It is a third of the TTL, so that the slot does not expire if one
// renewal fails.
func (h *heldSlot) interval() time.Duration {
	return max(cmp.Or(h.check.Limit.TTL, DefaultTTL)/3, time.Millisecond)
}

func (h *heldSlot) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return
	}
	ctx, cancel := detach(h.ctx)
	defer cancel()
	_, _ = h.limiter.Renew(ctx, h.check, h.receipt) // if this fails, the next renewal takes the slot again
	h.timer.Reset(h.interval())
}

func (h *heldSlot) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return
	}
	h.released = true
	h.timer.Stop()
	ctx, cancel := detach(h.ctx)
	defer cancel()
	_ = h.limiter.Give(ctx, h.check, h.receipt) // if this fails, the slot becomes free after its TTL
}

// The time between two attempts to take a slot grows from minSlotWait to maxSlotWait.
const (
	minSlotWait = time.Millisecond
	maxSlotWait = 50 * time.Millisecond
)

// takeSlot takes a slot as soon as there is one. It does not wait for the RetryAfter of a denial, which is when a slot
// expires, because most slots are released before that.
func takeSlot(ctx context.Context, l Limiter, c Check) (Decision, error) {
	for backoff := minSlotWait; ; backoff = min(2*backoff, maxSlotWait) {
		d, err := l.Take(ctx, c)
		if err != nil || d.Allowed {
			return d, err
		}
		if d.RetryAfter == Never {
			return d, fmt.Errorf("%d of %d slots: %w", c.Cost, d.Limit, ErrNever)
		}
		wait := backoff
		if d.RetryAfter > 0 {
			wait = min(backoff, d.RetryAfter)
		}
		if err := pause(ctx, wait); err != nil {
			return Decision{}, err
		}
	}
}

// Do waits until the check is allowed, then calls f and returns its error. Under a concurrency limit, Do holds the slot
// until f returns: see [Hold]. For other limits see [Wait].
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
