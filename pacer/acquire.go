package pacer

import (
	"context"
	"fmt"
	"time"
)

// Acquire takes n permits. It waits until they may be used, and returns how long it waited. If it returns an error, it
// has taken nothing.
//
// Acquire returns at once
//
//   - a [*DeadlineError], if ctx has a deadline before the end of the wait,
//   - ErrNever, if n is above the pacer's capacity,
//   - ErrQueueFull, if a [Queue] has no room for n more units.
//
// If ctx is cancelled during the wait, Acquire returns ctx's error, and callers behind it move up. If the pacer is
// closed, it returns ErrClosed.
func (q *callerQueue) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	if ctx == nil {
		return 0, ErrNilContext
	}
	q.mu.Lock()
	now, after, passAt, err := q.quoteFor(ctx, n)
	if err != nil || q.canPass(now, passAt) {
		if err == nil {
			q.admitNow(after)
		}
		q.mu.Unlock()
		return 0, err
	}
	if err := q.checkCapacity(n); err != nil {
		q.mu.Unlock()
		return 0, err
	}
	w := q.newWaiter(now, n)
	q.enqueue(w, after)
	q.mu.Unlock()

	removed := q.await(w, ctx.Done(), nil)
	waited = q.since(now)
	if removed {
		return waited, contextError(ctx, n)
	}
	return waited, w.err
}

// TryAcquire takes n permits and returns true, after waiting for at most timeout. If the wait would be longer, or if
// Acquire would return an error, it returns false and takes nothing.
func (q *callerQueue) TryAcquire(n int64, timeout time.Duration) bool {
	q.mu.Lock()
	if q.validate(n) != nil {
		q.mu.Unlock()
		return false
	}
	_, now := q.clock()
	after, passAt, err := q.quote(now, n)
	if err == nil && q.canPass(now, passAt) {
		q.admitNow(after)
		q.mu.Unlock()
		return true
	}
	if err != nil || passAt-now > int64(timeout) || q.checkCapacity(n) != nil {
		q.mu.Unlock()
		return false
	}
	w := q.newWaiter(now, n)
	q.enqueue(w, after)
	q.mu.Unlock()

	// The wait fits at the current rate, but a lower rate may make it longer.
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	return !q.await(w, nil, timer.C) && w.err == nil
}

// quoteFor returns the current instant and the results of quote. It returns an error if n is invalid, or if the wait
// would be longer than ctx allows.
func (q *callerQueue) quoteFor(ctx context.Context, n int64) (now int64, after state, passAt int64, err error) {
	if err = q.validate(n); err != nil {
		return 0, after, 0, err
	}
	if ctx.Err() != nil {
		return 0, after, 0, contextError(ctx, n)
	}
	t, now := q.clock()
	if after, passAt, err = q.quote(now, n); err != nil {
		return now, after, passAt, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		wait, remaining := time.Duration(passAt-now), deadline.Sub(t)
		if wait > remaining {
			return now, after, passAt, &DeadlineError{Wait: wait, Left: remaining}
		}
	}
	return now, after, passAt, nil
}

// checkCapacity returns an error if there is no room for n more waiting permits.
func (q *callerQueue) checkCapacity(n int64) error {
	if q.maxWaiting == 0 || n <= q.maxWaiting-q.waitingPermits {
		return nil
	}
	return fmt.Errorf("%w: %d of %d units are waiting, no room for %d", ErrQueueFull, q.waitingPermits, q.maxWaiting, n)
}

func (q *callerQueue) newWaiter(now, n int64) *waiter {
	w := &waiter{n: n, queuedAt: now, done: make(chan struct{})}
	if q.worker == nil {
		w.alarm = make(chan int64, 1)
	}
	return w
}

// await waits until w is admitted or rejected, and returns false. If cancelled or timeout is ready earlier, it removes
// w from the queue and returns true.
func (q *callerQueue) await(w *waiter, cancelled <-chan struct{}, timeout <-chan time.Time) (removed bool) {
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
			wait := time.Duration(wakeAt) - q.since(0)
			if timer == nil {
				timer = time.NewTimer(wait)
				timerC = timer.C
			} else {
				timer.Reset(wait)
			}
		case <-timerC:
			q.tick()
		case <-cancelled:
			return q.withdraw(w)
		case <-timeout:
			return q.withdraw(w)
		}
	}
}

// withdraw removes w from the queue. It returns false if w has already been admitted or rejected.
func (q *callerQueue) withdraw(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, now := q.clock()
	return q.remove(w, now)
}

// tick runs when the timer fires, and admits the callers that may pass now. If the schedule has changed, there may be
// none yet.
func (q *callerQueue) tick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, now := q.clock()
	q.timekeeper = nil // its timer has fired, so admitDue selects another timekeeper
	q.admitDue(now)
}

// since returns the time since an instant, which is in nanoseconds since q.epoch.
func (q *callerQueue) since(instant int64) time.Duration {
	return time.Since(q.epoch) - time.Duration(instant)
}
