package headgate

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Hold waits until a slot of a concurrency limit is free, and takes it. The caller must call release when it no longer
// needs the slot; further calls of release do nothing.
//
// Hold renews the slot in the background until release is called, so a caller may keep the slot for longer than the
// limit's TTL. If the process crashes, the slot becomes free after the TTL. ctx limits only the wait for the slot: the
// end of ctx does not release the slot.
//
// Waiting callers are not queued. For other algorithms Hold returns ErrUnsupported: use [Wait].
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
	h.mu.Lock() // renew may start before AfterFunc returns, and uses h.timer
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.renewInterval(), h.renew)
	return h.release, nil
}

// A heldSlot is a slot that is renewed until it is released.
type heldSlot struct {
	ctx     context.Context // the context passed to Hold; only its values are used
	limiter Limiter
	check   Check
	receipt Receipt

	mu       sync.Mutex // locked during each renewal, because a renewal after the release would take the slot again
	timer    *time.Timer
	released bool
}

// renewInterval returns the time between two renewals: a third of the TTL. If one renewal fails, the next one still
// comes before the slot expires.
func (h *heldSlot) renewInterval() time.Duration {
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
	_, _ = h.limiter.Renew(ctx, h.check, h.receipt) // after a failure, the next renewal takes an expired slot again
	h.timer.Reset(h.renewInterval())
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
	_ = h.limiter.Give(ctx, h.check, h.receipt) // after a failure, the slot becomes free when its TTL ends
}

// takeSlot retries after minBackoff, and doubles the time between its attempts up to maxBackoff.
const (
	minBackoff = time.Millisecond
	maxBackoff = 50 * time.Millisecond
)

// takeSlot tries to take a slot until one is free. It retries sooner than the RetryAfter of a denial: RetryAfter is the
// time until a slot expires, and most slots are released long before they expire.
func takeSlot(ctx context.Context, l Limiter, c Check) (Decision, error) {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
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

// Do waits until the check is allowed, then calls f and returns its error. Under a concurrency limit, Do waits as
// [Hold] does, and releases the slot when f returns. Under other limits, it waits as [Wait] does.
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
