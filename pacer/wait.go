package pacer

import (
	"context"
	"fmt"
	"time"
)

// acquire waits in line for n permits.
func (l *line) acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	if ctx == nil {
		return 0, ErrNilContext
	}
	l.mu.Lock()
	now, after, grant, err := l.enter(ctx, n)
	if err != nil || l.idle(now, grant) {
		if err == nil {
			l.pass(after)
		}
		l.mu.Unlock()
		return 0, err
	}
	if err := l.roomFor(n); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	p := l.waiter(now, n)
	l.join(p, after)
	l.mu.Unlock()

	left := l.await(p, ctx.Done(), nil)
	waited = l.since(now)
	if left {
		return waited, gaveUp(ctx, n)
	}
	return waited, p.err
}

// tryAcquire waits in line for n permits unless that would take longer than timeout.
func (l *line) tryAcquire(n int64, timeout time.Duration) bool {
	l.mu.Lock()
	if l.refuse(n) != nil {
		l.mu.Unlock()
		return false
	}
	_, now := l.clock()
	after, grant, err := l.ask(now, n)
	if err == nil && l.idle(now, grant) {
		l.pass(after)
		l.mu.Unlock()
		return true
	}
	if err != nil || grant-now > int64(timeout) || l.roomFor(n) != nil {
		l.mu.Unlock()
		return false
	}
	p := l.waiter(now, n)
	l.join(p, after)
	l.mu.Unlock()

	// The wait fits as things stand, but a lower rate may yet make it longer.
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	return !l.await(p, nil, timer.C) && p.err == nil
}

// enter checks that n may be asked for under ctx, and asks.
func (l *line) enter(ctx context.Context, n int64) (now int64, after state, grant int64, err error) {
	if err = l.refuse(n); err != nil {
		return 0, after, 0, err
	}
	if ctx.Err() != nil {
		return 0, after, 0, gaveUp(ctx, n)
	}
	t, now := l.clock()
	if after, grant, err = l.ask(now, n); err != nil {
		return now, after, grant, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		wait, left := time.Duration(grant-now), deadline.Sub(t)
		if wait > left {
			return now, after, grant, &DeadlineError{Wait: wait, Left: left}
		}
	}
	return now, after, grant, nil
}

// roomFor returns why n more units may not stand in line.
func (l *line) roomFor(n int64) error {
	if l.room == 0 || n <= l.room-l.units {
		return nil
	}
	return fmt.Errorf("%w: %d of %d units are waiting, no room for %d", ErrQueueFull, l.units, l.room, n)
}

func (l *line) waiter(now, n int64) *place {
	p := &place{n: n, since: now, done: make(chan struct{})}
	if l.keeper == nil {
		p.alarm = make(chan int64, 1)
	}
	return p
}

// await returns when p is granted or sent away, or, with true, when p has left because one of the channels said so.
func (l *line) await(p *place, cancelled <-chan struct{}, timeout <-chan time.Time) (left bool) {
	var timer *time.Timer
	var rings <-chan time.Time
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		select {
		case <-p.done:
			return false
		case due := <-p.alarm:
			wait := time.Duration(due) - l.since(0)
			if timer == nil {
				timer = time.NewTimer(wait)
				rings = timer.C
			} else {
				timer.Reset(wait)
			}
		case <-rings:
			l.tick()
		case <-cancelled:
			return l.giveUp(p)
		case <-timeout:
			return l.giveUp(p)
		}
	}
}

// giveUp takes p out of the line, and returns false if it was granted or sent away before it could leave.
func (l *line) giveUp(p *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, now := l.clock()
	return l.leave(p, now)
}

// tick grants whoever is due. It runs when an alarm rings, perhaps a little early for a schedule that has since changed.
func (l *line) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, now := l.clock()
	l.lead = nil // whose alarm has gone off; settle appoints again
	l.settle(now)
}

// since returns the time that has passed since an instant.
func (l *line) since(instant int64) time.Duration {
	return time.Since(l.epoch) - time.Duration(instant)
}
