package pacer

import (
	"fmt"
	"math"
	"time"
)

// MaxReservations is the maximum number of outstanding reservations of one pacer: those that are not cancelled and
// whose time has not come. Further ones are refused with ErrTooManyReservations. This bounds the pacer's memory, and
// the time of a call that admits many reservations at once.
const MaxReservations = 1 << 16

// Reservation is a promise of permits at a later time, for callers that do not want to block. The caller waits for
// Delay and then uses the permits, or calls Cancel. The promised time never changes, even if callers in front leave,
// the rate changes or the pacer is closed.
//
// Reservations are queued like waiting callers. Callers behind a reservation pass after it, even if the pacer is idle
// before the promised time because a caller in front has left. The zero Reservation is not OK. A Reservation is safe
// for concurrent use, and copies are the same reservation.
type Reservation struct {
	queue  *callerQueue
	waiter *waiter
	at     int64
	err    error
}

// OK reports whether the permits were reserved.
func (r Reservation) OK() bool { return r.queue != nil }

// Err returns an error that says why the permits were not reserved, or nil if they were reserved.
func (r Reservation) Err() error {
	if r.queue == nil && r.err == nil {
		return ErrUninitialized
	}
	return r.err
}

// Delay returns how long to wait from now before using the permits; 0 means that they may be used at once. If the
// reservation is not OK, Delay returns the longest Duration, so that callers that forget to check OK do not use
// permits.
func (r Reservation) Delay() time.Duration {
	if r.queue == nil {
		return math.MaxInt64
	}
	return max(0, -r.queue.since(r.at))
}

// Cancel returns the permits. Waiting callers behind the reservation move up, and none passes later than before, except
// for rounding to the nanosecond. After the promised time Cancel does nothing, because the permits may have been used.
// A second call does nothing.
//
// Later reservations keep their promised times, and callers behind them wait for them. So Cancel may leave a gap in
// which the pacer is idle. [Bursty] and [TokenQueue] save this gap like idle time. The permits of an [Allowance] expire
// in it. With [WarmingUp] and [Queue] it is lost; WarmingUp does not cool in it.
//
// Cancelling the last reservation in the queue is fast. After any other Cancel, the next call recomputes the times of
// all waiting callers, which takes some milliseconds for MaxReservations.
func (r Reservation) Cancel() {
	if r.waiter == nil {
		return
	}
	r.queue.withdraw(r.waiter)
}

// Reserve takes n permits for a later time, without waiting for it. If Acquire would return an error, the reservation
// is not OK, and its Err returns the error.
func (q *callerQueue) Reserve(n int64) Reservation {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.validate(n); err != nil {
		return Reservation{err: err}
	}
	_, now := q.clock()
	after, passAt, err := q.quote(now, n)
	if err != nil {
		return Reservation{err: err}
	}
	if q.canPass(now, passAt) {
		q.admitNow(after)
		return Reservation{queue: q, at: passAt}
	}
	if err := q.checkCapacity(n); err != nil {
		return Reservation{err: err}
	}
	if q.reservations >= MaxReservations {
		return Reservation{err: fmt.Errorf("%w: %d are outstanding", ErrTooManyReservations, q.reservations)}
	}
	w := &waiter{n: n, queuedAt: now, at: passAt, isReservation: true}
	after.reservedUntil = passAt
	q.enqueue(w, after)
	return Reservation{queue: q, waiter: w, at: passAt}
}
