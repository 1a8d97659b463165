package pacer

import (
	"fmt"
	"math"
	"time"
)

// MaxReservations limits the outstanding reservations of one pacer: those that are not cancelled and whose time has
// not come. Further ones are refused with ErrTooManyReservations. This bounds the pacer's memory and the time of a
// call, which admits all reservations that have become due.
const MaxReservations = 1 << 16

// Reservation is a promise of permits at an instant, for callers that don't want to block: wait for Delay, then go
// ahead, or Cancel. The promised time never changes, whatever happens to callers in front, to the rate or to the pacer:
// Close does not revoke it.
//
// Reservations are queued like waiting callers. A later caller passes later, even if the pacer is idle before the
// promised time because a caller in front has left. The zero Reservation is not OK. It is safe for concurrent use, and
// copies are the same reservation.
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

// Delay returns how long to wait from now before using the permits; 0 means that they may be used at once. Without a
// reservation it is the longest Duration, so that a caller that does not check OK does no harm.
func (r Reservation) Delay() time.Duration {
	if r.queue == nil {
		return math.MaxInt64
	}
	return max(0, -r.queue.since(r.at))
}

// Cancel returns the permits: waiting callers behind move up, and none passes later than before, except for rounding to
// the nanosecond. It does nothing after the promised time, because the permits may have been used, and nothing when
// called again.
//
// Later reservations keep their promised times. Callers behind such a reservation move up to it and no further: they
// wait for it even if the pacer is idle until then. The effect of that gap depends on the pacer: [Bursty] and
// [TokenQueue] save it like idle time, the permits of an [Allowance] expire, and with [WarmingUp] and [Queue] it is
// lost; WarmingUp does not cool in it.
//
// Cancelling the last reservation in the queue costs nothing. After cancelling any other one, the next call
// recomputes the times of all waiting callers, which takes some milliseconds for MaxReservations.
func (r Reservation) Cancel() {
	if r.waiter == nil {
		return
	}
	r.queue.withdraw(r.waiter)
}

// Reserve takes n permits for a later time, without waiting for it. See [Reservation] for its guarantees. Where Acquire
// would return an error, the reservation is not OK and has that error.
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
