package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

const (
	// MinActive and maxActive bound the limit of a Queue. MinActive calls keep a near and quick store busy; more would
	// only fill the processor's caches with requests that wait for a core. maxActive calls fit into a connection to Redis.
	MinActive = 32
	maxActive = 900
	// The limit is at least minPerMs for each millisecond that a call takes, but this minimum is at most maxMinimum. With
	// minPerMs, a store decides 16,000 requests a second, however long its calls take.
	minPerMs   = 16
	maxMinimum = 128
	// MaxQueued is the maximum number of requests that wait in a Queue.
	MaxQueued = 16384
	// sweepInterval is the time between two searches for requests that have waited too long or whose caller has left.
	sweepInterval = 10 * time.Millisecond
	// If a sweep is late by at least minStop, this process did not run at all: it or its machine was stopped.
	minStop = 90 * time.Millisecond
	// slowStep is how much the limit shrinks after a slow call. It is more than 1, because even the slowest call must end
	// before the deadline, so there should be several quick calls for a slow one.
	slowStep = 4
	// A call is quick if it takes at most twice the time of the quickest call plus quickSlack. It is slow if it takes more
	// than five times the time of the quickest call plus slowSlack. See Adjust.
	quickSlack = 500 * time.Microsecond
	slowSlack  = 2 * time.Millisecond
	// bestWindow is the number of calls after which the time of the quickest call is roughly forgotten.
	bestWindow = 1024
)

// A Queue limits how many decisions of one shard are active, and queues the others.
//
// Without a limit, a flood of requests makes every call late: callers wait for a core that is busy with other requests,
// and miss a deadline that is meant for the store. If n decisions are active and x end per second, a decision takes n/x
// seconds. So the limit grows only while decisions take a fraction of the deadline. All other requests wait in the
// queue, where the deadline has not begun, or are refused.
type Queue struct {
	clock   clock.Clock
	failing func() bool  // reports whether the last call failed because of the store
	limit   atomic.Int64 // how many decisions may be active
	active  atomic.Int64
	waiting atomic.Int64
	best    atomic.Int64 // duration of the quickest recent call in ns; 0 before the first call

	mu          sync.Mutex
	first, last *queued
	timer       clock.Timer // runs sweep; nil until a request waits
	armed       bool        // the timer is running
	sweepAt     time.Time   // when the timer fires
	pool        sync.Pool   // of *queued
}

// queued is a request that waits to be admitted.
type queued struct {
	ctx     context.Context
	until   time.Time
	outcome chan Outcome
	next    *queued
	stopped bool // until has been moved because this process was stopped
}

// NewQueue returns an empty queue with the limit MinActive. failing reports whether the last call failed because of the
// store.
func NewQueue(clk clock.Clock, failing func() bool) *Queue {
	q := &Queue{clock: clk, failing: failing}
	q.limit.Store(MinActive)
	return q
}

// Enter admits a decision if the limit allows and no request waits. An admitted decision must call Leave.
func (q *Queue) Enter() bool { return q.waiting.Load() == 0 && q.admit() }

func (q *Queue) admit() bool {
	for {
		n := q.active.Load()
		if n >= q.limit.Load() {
			return false
		}
		if q.active.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Leave ends an admitted decision, or one that waits for other callers until it calls Resume, and admits the next
// request. The result of a call must be known to failing before.
func (q *Queue) Leave() {
	q.active.Add(-1)
	if q.waiting.Load() > 0 {
		q.mu.Lock()
		q.advance()
		q.mu.Unlock()
	}
}

// Resume admits a decision again that called Leave, even if that exceeds the limit.
func (q *Queue) Resume() { q.active.Add(1) }

// Waiting returns the number of requests in the queue.
func (q *Queue) Waiting() int64 { return q.waiting.Load() }

// Wait puts a request into the queue, and waits for at most timeout until it is admitted.
func (q *Queue) Wait(ctx context.Context, timeout time.Duration) Outcome {
	r, ok := q.pool.Get().(*queued)
	if !ok {
		r = &queued{outcome: make(chan Outcome, 1)}
	}
	r.ctx, r.until, r.stopped = ctx, q.clock.Now().Add(timeout), false
	q.mu.Lock()
	if q.waiting.Load() >= MaxQueued {
		q.mu.Unlock()
		return Overloaded
	}
	if q.first == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.waiting.Add(1)
	q.advance() // a decision may have left since Enter, and not have seen this request
	q.arm()
	q.mu.Unlock()
	if s, ok := q.clock.(clock.Scheduler); ok { // a simulator runs other goroutines before this one may block
		s.Wait(func() bool { return len(r.outcome) > 0 })
	}
	outcome := <-r.outcome
	r.ctx = nil
	q.pool.Put(r)
	return outcome
}

// advance admits requests from the queue. While calls fail it admits one at a time: if the store is down, the circuit
// opens in a moment, and queued requests should not have to wait for a deadline before that. mu is held.
func (q *Queue) advance() {
	for q.first != nil && q.admit() {
		// A decision that has made room reported the result of its call before.
		if q.failing() && q.active.Load() > 1 {
			q.active.Add(-1)
			return
		}
		q.removeAfter(nil, Admitted)
	}
}

// removeAfter ends the wait of the request after previous, or of the first request if previous is nil. mu is held.
func (q *Queue) removeAfter(previous *queued, outcome Outcome) {
	link := &q.first
	if previous != nil {
		link = &previous.next
	}
	r := *link
	if *link = r.next; r.next == nil {
		q.last = previous
	}
	r.next = nil
	q.waiting.Add(-1)
	r.outcome <- outcome
}

// Dismiss ends the wait of all requests.
func (q *Queue) Dismiss(outcome Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first != nil {
		q.removeAfter(nil, outcome)
	}
}

// arm starts the timer for the next sweep if requests wait. mu is held.
func (q *Queue) arm() {
	if q.armed || q.first == nil {
		return
	}
	q.sweepAt = q.clock.Now().Add(sweepInterval)
	if q.timer == nil {
		q.timer = q.clock.AfterFunc(sweepInterval, q.sweep)
	} else {
		q.timer.Reset(sweepInterval)
	}
	q.armed = true
}

// sweep ends the wait of requests that have waited too long or whose caller has left.
func (q *Queue) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	late := now.Sub(q.sweepAt)
	var previous *queued
	for r := q.first; r != nil; {
		next := r.next
		if late >= minStop && !r.stopped {
			r.stopped, r.until = true, r.until.Add(late)
		}
		switch {
		case r.ctx.Err() != nil:
			q.removeAfter(previous, Canceled)
		case !now.Before(r.until):
			q.removeAfter(previous, Overloaded)
		default:
			previous = r
		}
		r = next
	}
	q.advance()
	q.armed = false
	q.arm()
}

// Adjust adapts the limit to the duration of a call. While requests wait, the limit grows by one for each quick call.
// It shrinks by slowStep for each slow call. Calls are compared with the quickest one, so that a distant store, whose
// calls all take long, gets many calls at once.
func (q *Queue) Adjust(took, deadline time.Duration) {
	best, waiting := time.Duration(q.best.Load()), q.waiting.Load() > 0
	switch {
	case best == 0 || took < best:
		best = max(1, took)
	case !waiting: // while requests wait, calls are slow because there are many
		best += (took - best) / bestWindow
	}
	q.best.Store(int64(best)) // losing one of two concurrent updates does no harm
	rest := max(0, deadline-best)
	minimum := min(max(MinActive, int64(took*minPerMs/time.Millisecond)), maxMinimum)
	switch limit := q.limit.Load(); {
	case took > best+min(rest/2, 4*best+slowSlack):
		q.limit.Store(max(minimum, limit-slowStep))
	case waiting && limit < minimum:
		q.limit.Store(minimum)
	case waiting && took < best+min(rest/4, best+quickSlack):
		q.limit.Store(min(maxActive, limit+1))
	}
}
