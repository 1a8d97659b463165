package pacer

import (
	"context"
	"fmt"
	"time"
)

// Acquire takes n permits. It waits until they may be used, and returns how long it waited.
//
// It returns at once and takes nothing
//
//   - with a [*DeadlineError], if ctx has a deadline before the end of the wait,
//   - with ErrNever, if n is above the pacer's capacity,
//   - with ErrQueueFull, if n does not fit behind the waiting items of a [Queue].
//
// If ctx is cancelled while it waits, it returns ctx's error, and callers behind it move up. If the pacer is closed, it
// returns ErrClosed. With an error it has taken nothing.
func (l *callerQueue) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	if ctx == nil {
		return 0, ErrNilContext
	}
	l.mu.Lock()
	now, after, grant, err := l.quoteFor(ctx, n)
	if err != nil || l.grantable(now, grant) {
		if err == nil {
			l.grantNow(after)
		}
		l.mu.Unlock()
		return 0, err
	}
	if err := l.checkCapacity(n); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	w := l.newWaiter(now, n)
	l.enqueue(w, after)
	l.mu.Unlock()

	removed := l.await(w, ctx.Done(), nil)
	waited = l.since(now)
	if removed {
		return waited, contextError(ctx, n)
	}
	return waited, w.err
}

// TryAcquire takes n permits and returns true, after waiting for at most timeout. If the wait would be longer, it
// returns false at once and takes nothing, as it does where Acquire returns an error.
func (l *callerQueue) TryAcquire(n int64, timeout time.Duration) bool {
	l.mu.Lock()
	if l.validate(n) != nil {
		l.mu.Unlock()
		return false
	}
	_, now := l.clock()
	after, grant, err := l.quote(now, n)
	if err == nil && l.grantable(now, grant) {
		l.grantNow(after)
		l.mu.Unlock()
		return true
	}
	if err != nil || grant-now > int64(timeout) || l.checkCapacity(n) != nil {
		l.mu.Unlock()
		return false
	}
	w := l.newWaiter(now, n)
	l.enqueue(w, after)
	l.mu.Unlock()

	// The wait fits at the current rate, but a lower rate may make it longer.
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	return !l.await(w, nil, timer.C) && w.err == nil
}

// quoteFor checks that n may be taken under ctx, and returns the quote.
func (l *callerQueue) quoteFor(ctx context.Context, n int64) (now int64, after state, grant int64, err error) {
	if err = l.validate(n); err != nil {
		return 0, after, 0, err
	}
	if ctx.Err() != nil {
		return 0, after, 0, contextError(ctx, n)
	}
	t, now := l.clock()
	if after, grant, err = l.quote(now, n); err != nil {
		return now, after, grant, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		wait, remaining := time.Duration(grant-now), deadline.Sub(t)
		if wait > remaining {
			return now, after, grant, &DeadlineError{Wait: wait, Left: remaining}
		}
	}
	return now, after, grant, nil
}

// checkCapacity returns an error if n more units may not wait.
func (l *callerQueue) checkCapacity(n int64) error {
	if l.capacity == 0 || n <= l.capacity-l.waitingUnits {
		return nil
	}
	return fmt.Errorf("%w: %d of %d units are waiting, no room for %d", ErrQueueFull, l.waitingUnits, l.capacity, n)
}

func (l *callerQueue) newWaiter(now, n int64) *waiter {
	w := &waiter{n: n, queuedAt: now, done: make(chan struct{})}
	if l.worker == nil {
		w.alarm = make(chan int64, 1)
	}
	return w
}

// await waits until w is granted or rejected, and returns false. If one of the channels receives before that, it
// removes w from the queue and returns true.
func (l *callerQueue) await(w *waiter, cancelled <-chan struct{}, timeout <-chan time.Time) (removed bool) {
	var timer *time.Timer
	var timerC <-chan time.Time
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		select {
		case <-w.done:
			return false
		case wakeAt := <-w.alarm:
			wait := time.Duration(wakeAt) - l.since(0)
			if timer == nil {
				timer = time.NewTimer(wait)
				timerC = timer.C
			} else {
				timer.Reset(wait)
			}
		case <-timerC:
			l.tick()
		case <-cancelled:
			return l.withdraw(w)
		case <-timeout:
			return l.withdraw(w)
		}
	}
}

// withdraw removes w from the queue, and returns false if it was granted or rejected before.
func (l *callerQueue) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, now := l.clock()
	return l.remove(w, now)
}

// tick grants due callers. It runs when the timer fires, which may be too early if the schedule has changed.
func (l *callerQueue) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, now := l.clock()
	l.timekeeper = nil // its timer has fired; grantDue selects the next one
	l.grantDue(now)
}

// since returns the time since an instant.
func (l *callerQueue) since(instant int64) time.Duration {
	return time.Since(l.epoch) - time.Duration(instant)
}
