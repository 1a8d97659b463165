package pacer

import (
	"sync"
	"time"
)

// A callerQueue is a FIFO queue of callers that wait for permits of a schedule. A caller takes its permits when it is
// admitted. If it leaves earlier, it has taken nothing, and callers behind it move up.
//
// A callerQueue needs no goroutine. One waiting caller, the timekeeper, has a timer for all of them. When it leaves,
// another caller becomes the timekeeper. A [Queue] and a [TokenQueue] have a worker, whose goroutine has the timer.
//
// Instants are in nanoseconds since epoch. mu guards all fields that change.
type callerQueue struct {
	mu    sync.Mutex
	epoch time.Time // when the pacer was created
	sched schedule
	// maxPermits is the pacer's capacity: the most permits that one caller can take. 0 means no limit.
	maxPermits int64
	// maxWaiting is the maximum of waitingPermits. 0 means no limit.
	maxWaiting     int64
	waitingPermits int64 // permits of all callers and reservations in the queue

	// headState is the state after all admitted callers. tailState is the state after the whole queue, unless tailStale is
	// set; then quote computes it.
	headState, tailState state
	tailStale            bool
	first, last          *waiter
	waiting              int // callers in the queue
	reservations         int // reservations in the queue
	// movedAt is the instant at which callers last moved up. No caller in the queue can pass earlier.
	movedAt   int64
	moveCount uint64 // how often callers moved up
	// timekeeper is the waiter that has the timer for all callers.
	timekeeper *waiter

	worker *worker
	closed bool
}

// A waiter is one caller or reservation in a queue.
type waiter struct {
	n        int64
	queuedAt int64
	// at is the instant that was promised to a reservation, and never changes. For a caller it is the instant at which it
	// was admitted.
	at            int64
	isReservation bool
	queued        bool // the waiter is in the queue
	// stateBefore is the queue's tailState before the waiter joined. It is valid if the queue's moveCount is still the
	// waiter's.
	stateBefore state
	moveCount   uint64
	// promised is the state after a reservation, as computed when it was made or when the rate last changed.
	promised state
	// err says why a waiter was rejected. It may be read after done is closed.
	err error
	// done is closed when a caller is admitted or rejected. It is nil for reservations and jobs.
	done chan struct{}
	// alarm receives the instant to which the timekeeper sets its timer. Its buffer holds the latest instant.
	alarm chan int64
	job   *job // only for items of Queue.Submit

	prev, next *waiter
}

// clock returns the current time, and the same time as an instant. mu must be held, so that the instants that methods
// use in turn never decrease.
func (q *callerQueue) clock() (time.Time, int64) {
	t := time.Now()
	return t, int64(t.Sub(q.epoch))
}

// evaluate admits the callers that are due and returns value(now), or 0 if the pacer is uninitialized.
func (q *callerQueue) evaluate(value func(now int64) int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sched == nil {
		return 0
	}
	_, now := q.clock()
	q.admitDue(now)
	return value(now)
}

// validate returns an error if n permits can never be taken.
func (q *callerQueue) validate(n int64) error {
	switch {
	case q.sched == nil:
		return ErrUninitialized
	case n < 1:
		return badCount(n)
	case q.closed:
		return ErrClosed
	case q.maxPermits > 0 && n > q.maxPermits:
		return neverError(n, "at most "+decimal(q.maxPermits)+", the capacity")
	}
	return nil
}

// quote computes when a new caller of n permits at the end of the queue could pass. It returns this instant and the
// state after the caller, but does not add the caller. First it admits the callers whose time has come.
func (q *callerQueue) quote(now, n int64) (after state, passAt int64, err error) {
	q.admitDue(now)
	if q.first == nil {
		q.tailState, q.tailStale = q.headState, false
	} else if q.tailStale {
		s := q.headState
		for w := q.first; w != nil; w = w.next {
			s, _ = q.stateAfter(s, w)
		}
		q.tailState, q.tailStale = s, false
	}
	if after, passAt = q.takeBehind(q.tailState, now, n); after.neverFree() {
		return after, passAt, tooLongError(n)
	}
	return after, passAt, nil
}

// canPass reports whether a new caller may pass at once. passAt is the result of quote.
func (q *callerQueue) canPass(now, passAt int64) bool {
	return passAt <= now && q.first == nil && (q.worker == nil || !q.worker.busy)
}

// admitNow admits a caller that does not wait. after is the result of quote.
func (q *callerQueue) admitNow(after state) { q.headState, q.tailState = after, after }

// enqueue adds w at the end of the queue. after is the result of quote.
func (q *callerQueue) enqueue(w *waiter, after state) {
	w.stateBefore, w.moveCount, w.promised = q.tailState, q.moveCount, after
	q.tailState = after
	q.waitingPermits += w.n
	q.addWaiting(w, 1)
	w.queued, w.prev = true, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.setAlarm()
}

// stateAfter returns the state after w if s is the state before it, and when w may pass.
func (q *callerQueue) stateAfter(s state, w *waiter) (after state, passAt int64) {
	after, passAt = q.takeBehind(s, max(w.queuedAt, q.movedAt), w.n)
	if !w.isReservation {
		return after, passAt
	}
	if passAt < w.at { // a caller in front has left, but the reservation keeps its instant
		after = q.sched.takeLate(s, w.at, w.n, w.promised)
	}
	if after.neverFree() { // after a lower rate, the reservation's permits would block the queue for 73 years: take none
		after = q.sched.advance(s, w.at)
	}
	after.reservedUntil = max(s.reservedUntil, w.at)
	return after, w.at
}

// takeBehind takes n permits for a caller that passes after all reservations before it.
func (q *callerQueue) takeBehind(s state, at, n int64) (after state, passAt int64) {
	after, passAt = q.sched.take(s, at, n)
	return after, max(passAt, s.reservedUntil)
}

// admitDue admits all callers whose time has come.
func (q *callerQueue) admitDue(now int64) {
	for w := q.first; w != nil && (q.worker == nil || !q.worker.busy); w = q.first {
		after, passAt := q.stateAfter(q.headState, w)
		if passAt > now {
			break
		}
		q.headState = after
		q.unlink(w)
		w.at = passAt
		if w.job != nil {
			q.worker.start(w)
		} else if w.done != nil {
			close(w.done)
		}
	}
	q.setAlarm()
}

// remove removes w from the queue and lets callers behind it move up. It returns false if w has already left the queue.
// It also returns false for a reservation whose time has come, because its permits may have been used.
func (q *callerQueue) remove(w *waiter, now int64) bool {
	q.admitDue(now)
	if !w.queued || w.isReservation && w.at <= now {
		return false
	}
	last := w == q.last
	q.unlink(w)
	if last && w.moveCount == q.moveCount { // no caller moves up
		q.tailState = w.stateBefore
		q.setAlarm()
	} else {
		q.moveUp(now)
	}
	return true
}

// reject removes w from the queue with an error. The caller must call moveUp afterwards, unless the queue is empty
// then.
func (q *callerQueue) reject(w *waiter, err error) {
	q.unlink(w)
	w.err = err
	switch {
	case w.job != nil:
		w.job.reject(err)
	case w.done != nil:
		close(w.done)
	}
}

// moveUp recomputes when waiting callers may pass, after a caller in front of them has left.
func (q *callerQueue) moveUp(at int64) {
	q.movedAt = max(q.movedAt, at)
	q.moveCount++
	q.tailStale = true
	q.timekeeper = nil
	q.admitDue(at)
}

// reschedule changes the schedule and converts the state. Waiting callers keep their order and follow the new schedule;
// those that can never pass are rejected. Reservations keep their times.
func (q *callerQueue) reschedule(now int64, sched schedule, maxPermits int64, convert func(state) state) {
	q.admitDue(now)
	q.headState = convert(q.sched.advance(q.headState, now))
	q.sched, q.maxPermits = sched, maxPermits
	q.movedAt = max(q.movedAt, now)
	s := q.headState
	for w := q.first; w != nil; {
		next := w.next
		if err := q.reprice(&s, w); err != nil {
			q.reject(w, err)
		}
		w = next
	}
	q.moveUp(now)
}

// reprice advances *s from the state before w to the state after w, under a new schedule. It returns an error if w can
// never pass.
func (q *callerQueue) reprice(s *state, w *waiter) error {
	if w.isReservation {
		// The promised state was computed with the old rate. Compute it again: from w.at, or from s.free if that is later.
		before := *s
		before.free = span{ns: max(w.at, s.free.ceil())}
		w.promised, _ = q.sched.take(before, w.at, w.n)
	} else if err := q.validate(w.n); err != nil {
		return err
	}
	after, _ := q.stateAfter(*s, w)
	if after.neverFree() && !w.isReservation {
		return tooLongError(w.n)
	}
	*s = after
	return nil
}

// setAlarm tells the timekeeper or the worker when the next caller may pass. Without a timekeeper it selects the first
// waiting caller.
func (q *callerQueue) setAlarm() {
	if q.waiting == 0 || q.timekeeper != nil && q.timekeeper.queued {
		return
	}
	s, w := q.headState, q.first
	for ; w != nil && w.isReservation; w = w.next {
		s, _ = q.stateAfter(s, w)
	}
	q.timekeeper = w
	_, wakeAt := q.stateAfter(s, w)
	alarm := w.alarm
	if q.worker != nil {
		alarm = q.worker.alarm
	}
	select {
	case <-alarm:
	default:
	}
	alarm <- wakeAt // never blocks: the buffer is empty, and only goroutines that hold mu send
}

func (q *callerQueue) unlink(w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	q.waitingPermits -= w.n
	q.addWaiting(w, -1)
}

// addWaiting adds to the number of waiting callers or reservations.
func (q *callerQueue) addWaiting(w *waiter, delta int) {
	if w.isReservation {
		q.reservations += delta
	} else {
		q.waiting += delta
	}
}
