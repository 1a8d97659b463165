package pacer

import (
	"sync"
	"time"
)

// A callerQueue is the FIFO queue of callers that wait for permits of a schedule. Permits are booked when a caller is
// granted. A caller that leaves earlier has taken nothing, and callers behind it move up.
//
// It needs no goroutine. The first waiting caller sets the timer for all callers; when it leaves, the next one
// does. In a [Queue] and a [TokenQueue], a worker sets the timer.
type callerQueue struct {
	mu    sync.Mutex
	epoch time.Time // origin of instants; never changes
	sched schedule
	// maxCount is the largest count that can ever pass; 0 means no limit.
	maxCount int64
	// capacity is the number of units that may wait; 0 means no limit.
	capacity     int64
	waitingUnits int64

	// head is the state after all granted callers. tail is the state after all waiting callers as well; it is invalid
	// if tailStale is set.
	head, tail   state
	tailStale    bool
	first, last  *waiter
	waiting      int // waiting callers without a reservation
	reservations int // reservations in the queue
	// movedAt is when waiting callers last moved up. None of them can have been granted before.
	movedAt   int64
	moveCount uint64 // how often waiting callers moved up
	// timekeeper is the waiter that sets the timer for all.
	timekeeper *waiter

	worker *worker
	closed bool
}

// A waiter is one caller or reservation in a queue.
type waiter struct {
	n        int64
	queuedAt int64
	// at is the instant that a reservation was promised, or when a caller was granted. A promised instant never
	// changes.
	at            int64
	isReservation bool
	queued        bool
	// before is the tail of the queue before the waiter joined. It is valid while the moveCount of the queue is
	// the same as that of the waiter.
	before    state
	moveCount uint64
	// after is the state behind a reservation, as computed when it was made or when the rate last changed.
	after state
	// err is why a waiter was rejected; it may be read once done is closed.
	err error
	// done is closed when a waiter is granted or rejected; nil for reservations and jobs.
	done chan struct{}
	// alarm tells a waiter to set the timer to an instant. Its buffer holds one instant, the latest.
	alarm chan int64
	job   *job

	prev, next *waiter
}

// clock returns the current time, and the same time as an instant. mu must be held, so that instants never
// decrease.
func (l *callerQueue) clock() (time.Time, int64) {
	t := time.Now()
	return t, int64(t.Sub(l.epoch))
}

// read returns a figure after granting the callers that are due, or 0 if the pacer is uninitialized.
func (l *callerQueue) read(figure func(now int64) int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return 0
	}
	_, now := l.clock()
	l.grantDue(now)
	return figure(now)
}

// validate returns an error if n permits can never be taken.
func (l *callerQueue) validate(n int64) error {
	switch {
	case l.sched == nil:
		return ErrUninitialized
	case n < 1:
		return badCount(n)
	case l.closed:
		return ErrClosed
	case l.maxCount > 0 && n > l.maxCount:
		return never(n, "at most "+decimal(l.maxCount)+", the capacity")
	}
	return nil
}

// quote returns the result of taking n permits at now behind all waiting callers. It grants due callers and changes
// nothing else.
func (l *callerQueue) quote(now, n int64) (after state, grant int64, err error) {
	l.grantDue(now)
	if l.first == nil {
		l.tail, l.tailStale = l.head, false
	} else if l.tailStale {
		s := l.head
		for w := l.first; w != nil; w = w.next {
			s, _ = l.book(s, w)
		}
		l.tail, l.tailStale = s, false
	}
	if after, grant = l.take(l.tail, now, n); after.full() {
		return after, grant, tooLong(n)
	}
	return after, grant, nil
}

// grantable reports whether a caller with this result of quote may pass now.
func (l *callerQueue) grantable(now, grant int64) bool {
	return grant <= now && l.first == nil && (l.worker == nil || !l.worker.busy)
}

// grantNow books the state that quote returned, without waiting.
func (l *callerQueue) grantNow(after state) { l.head, l.tail = after, after }

// enqueue puts w at the end of the queue, with the state that quote returned.
func (l *callerQueue) enqueue(w *waiter, after state) {
	w.before, w.moveCount, w.after = l.tail, l.moveCount, after
	l.tail = after
	l.waitingUnits += w.n
	l.addWaiting(w, 1)
	w.queued, w.prev = true, l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.setAlarm()
}

// book returns the state after w, and when w may pass.
func (l *callerQueue) book(s state, w *waiter) (after state, grant int64) {
	after, grant = l.take(s, max(w.queuedAt, l.movedAt), w.n)
	if !w.isReservation {
		return after, grant
	}
	if grant < w.at { // a caller in front has left a gap that the reservation does not fill
		after = l.sched.takeLate(s, w.at, w.n, w.after)
	}
	if after.full() { // after a change to a lower rate; a reservation that can never be paid off would block the queue
		after = l.sched.advance(s, w.at)
	}
	after.reservedUntil = max(s.reservedUntil, w.at)
	return after, w.at
}

// take books n permits behind all earlier reservations.
func (l *callerQueue) take(s state, at, n int64) (after state, grant int64) {
	after, grant = l.sched.take(s, at, n)
	return after, max(grant, s.reservedUntil)
}

// grantDue grants all callers whose time has come.
func (l *callerQueue) grantDue(now int64) {
	for w := l.first; w != nil && (l.worker == nil || !l.worker.busy); w = l.first {
		after, grant := l.book(l.head, w)
		if grant > now {
			break
		}
		l.head = after
		l.unlink(w)
		w.at = grant
		if w.job != nil {
			l.worker.start(w)
		} else if w.done != nil {
			close(w.done)
		}
	}
	l.setAlarm()
}

// remove removes w from the queue, if it is still there, and lets callers behind it move up. A reservation may have
// been used once its time has come, even if it is still behind a caller that waits for a later time.
func (l *callerQueue) remove(w *waiter, now int64) bool {
	l.grantDue(now)
	if !w.queued || w.isReservation && w.at <= now {
		return false
	}
	last := w == l.last
	l.unlink(w)
	if last && w.moveCount == l.moveCount { // no caller moves up
		l.tail = w.before
		l.setAlarm()
	} else {
		l.moveUp(now)
	}
	return true
}

// reject removes w from the queue with an error; the caller then calls moveUp.
func (l *callerQueue) reject(w *waiter, err error) {
	l.unlink(w)
	w.err = err
	switch {
	case w.job != nil:
		w.job.end(err)
	case w.done != nil:
		close(w.done)
	}
}

// moveUp recomputes when waiting callers may pass, after a change in front of them.
func (l *callerQueue) moveUp(at int64) {
	l.movedAt = max(l.movedAt, at)
	l.moveCount++
	l.tailStale = true
	l.timekeeper = nil
	l.grantDue(at)
}

// reschedule changes the schedule and converts the state. Waiting callers keep their order and reservations their
// times; the others follow the new schedule, and those that can never pass are rejected.
func (l *callerQueue) reschedule(now int64, sched schedule, maxCount int64, convert func(state) state) {
	l.grantDue(now)
	l.head = convert(l.sched.advance(l.head, now))
	l.sched, l.maxCount = sched, maxCount
	l.movedAt = max(l.movedAt, now)
	s := l.head
	for w := l.first; w != nil; {
		next := w.next
		if err := l.reprice(&s, w); err != nil {
			l.reject(w, err)
		}
		w = next
	}
	l.moveUp(now)
}

// reprice books w under a new schedule and sets s to the state behind it. It returns an error if w cannot stay in
// the queue.
func (l *callerQueue) reprice(s *state, w *waiter) error {
	if w.isReservation {
		// w.after was computed with the old rate.
		snapshot := *s
		snapshot.free = span{ns: max(w.at, s.free.ceil())}
		w.after, _ = l.sched.take(snapshot, w.at, w.n)
	} else if err := l.validate(w.n); err != nil {
		return err
	}
	after, _ := l.book(*s, w)
	if after.full() && !w.isReservation {
		return tooLong(w.n)
	}
	*s = after
	return nil
}

// setAlarm tells the first waiting caller, or the worker, when to call grantDue.
func (l *callerQueue) setAlarm() {
	if l.waiting == 0 || l.timekeeper != nil && l.timekeeper.queued {
		return
	}
	s, w := l.head, l.first
	for ; w != nil && w.isReservation; w = w.next {
		s, _ = l.book(s, w)
	}
	l.timekeeper = w
	_, wakeAt := l.book(s, w)
	alarm := w.alarm
	if l.worker != nil {
		alarm = l.worker.alarm
	}
	select {
	case <-alarm:
	default:
	}
	alarm <- wakeAt // never blocks: the buffer is empty, and only goroutines that hold mu send
}

func (l *callerQueue) unlink(w *waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	l.waitingUnits -= w.n
	l.addWaiting(w, -1)
}

// addWaiting adds to the number of waiting callers or reservations.
func (l *callerQueue) addWaiting(w *waiter, delta int) {
	if w.isReservation {
		l.reservations += delta
	} else {
		l.waiting += delta
	}
}
