package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// fewestAdmitted and mostAdmitted bound how many decisions of a shard may be under way at once. The fewest are enough for
	// 100,000 a second from a store that answers within a millisecond, and the most fit into a connection to Redis.
	fewestAdmitted = 128
	mostAdmitted   = 900

	// queueWait is how long a request may wait to be admitted, in deadlines, and mostQueued how many may.
	queueWait  = 8
	mostQueued = 16384
	// queuedPatience is how many deadlines a call has whose request was queued. On a machine that has more to do than it
	// can, a server may not run for longer than a deadline, and is not down for that.
	queuedPatience = 5
	// queueLook is how often those who wait are looked at, to end those whose time is over or whose caller has gone.
	queueLook = 10 * time.Millisecond
)

// An admission bounds how many decisions of one shard are under way at once, and queues the others.
//
// Without a bound, a flood of requests makes every call late: callers wait for a processor that is busy with other
// requests, not for the store, and all of them miss a deadline that is meant for the store. With n decisions under way
// and x completed per second, one takes n/x seconds, so n grows only as long as decisions take a fraction of the deadline.
// The other requests wait in the queue, where no deadline of the store runs, or are refused.
type admission struct {
	limit   atomic.Int64 // how many may be under way
	inside  atomic.Int64 // how many are
	queued  atomic.Int64 // how many wait
	failing atomic.Bool  // the last decision was not made, as the store failed
	best    atomic.Int64 // how long the quickest call took lately, in ns; 0 if there was none

	mu          sync.Mutex
	first, last *applicant
	timer       *time.Timer // runs sweep; nil until somebody waits
	armed       bool
	idle        sync.Pool // of *applicant
}

// An applicant is a request that waits to be admitted.
type applicant struct {
	ctx     context.Context
	until   time.Time
	outcome chan standing
	next    *applicant
}

// enter admits a decision if fewer than the limit are under way and none waits. A decision that was admitted must leave.
func (a *admission) enter() bool { return a.queued.Load() == 0 && a.admit() }

func (a *admission) admit() bool {
	for {
		n := a.inside.Load()
		if n >= a.limit.Load() {
			return false
		}
		if a.inside.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a decision that was admitted, and admits the next in the queue, unless the store has failed: if it is down,
// that will be known in a moment, and those who wait must not wait for its deadline once more.
func (a *admission) leave(failed bool) {
	if a.failing.Load() != failed {
		a.failing.Store(failed)
	}
	a.inside.Add(-1)
	if !failed && a.queued.Load() > 0 {
		a.mu.Lock()
		a.advance()
		a.mu.Unlock()
	}
}

// resume admits a decision that was admitted before, and left to wait for others.
func (a *admission) resume() { a.inside.Add(1) }

// wait puts a request into the queue, for so long at most, and returns how it leaves it.
func (a *admission) wait(ctx context.Context, longest time.Duration) standing {
	w, ok := a.idle.Get().(*applicant)
	if !ok {
		w = &applicant{outcome: make(chan standing, 1)}
	}
	w.ctx, w.until = ctx, time.Now().Add(longest)
	a.mu.Lock()
	if a.queued.Load() >= mostQueued {
		a.mu.Unlock()
		return isRefused
	}
	if a.first == nil {
		a.first = w
	} else {
		a.last.next = w
	}
	a.last = w
	a.queued.Add(1)
	a.advance() // a decision may have left before it saw that somebody waits
	a.arm()
	a.mu.Unlock()
	how := <-w.outcome
	w.ctx = nil
	a.idle.Put(w)
	return how
}

// advance admits requests from the queue. The lock is held.
func (a *admission) advance() {
	for a.first != nil && a.admit() {
		a.remove(nil, itsTurn)
	}
}

// remove ends the wait of the request that stands behind another, or of the first if that is nil. The lock is held.
func (a *admission) remove(behind *applicant, how standing) {
	from := &a.first
	if behind != nil {
		from = &behind.next
	}
	w := *from
	if *from = w.next; w.next == nil {
		a.last = behind
	}
	w.next = nil
	a.queued.Add(-1)
	w.outcome <- how
}

// dismiss ends the wait of all.
func (a *admission) dismiss(how standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.first != nil {
		a.remove(nil, how)
	}
}

// arm has the queue swept soon, if somebody is in it. The lock is held.
func (a *admission) arm() {
	switch {
	case a.armed || a.first == nil:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(queueLook, a.sweep)
	default:
		a.timer.Reset(queueLook)
	}
	a.armed = true
}

// sweep ends the wait of those who have waited for too long, and of those whose caller has gone.
func (a *admission) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	var behind *applicant
	for w := a.first; w != nil; {
		next := w.next
		switch {
		case w.ctx.Err() != nil:
			a.remove(behind, hasEnded)
		case !now.Before(w.until):
			a.remove(behind, isRefused)
		default:
			behind = w
		}
		w = next
	}
	if !a.failing.Load() || a.inside.Load() == 0 {
		a.advance()
	}
	a.armed = false
	a.arm()
}

// adjust learns from a call that took so long under a deadline. The limit grows by one for each call that is quick while
// requests wait, and shrinks by more for each that is slow: one that took half of the deadline longer than the quickest.
func (a *admission) adjust(took, deadline time.Duration) {
	best, waits := a.best.Load(), a.queued.Load() > 0
	switch {
	case best == 0 || int64(took) < best:
		best = max(1, int64(took))
	case !waits: // while requests wait, calls are slow because there are many
		best += (int64(took) - best) / bestMemory
	}
	a.best.Store(best) // two at once may lose one, which does no harm
	rest := max(0, int64(deadline)-best)
	switch limit := a.limit.Load(); {
	case int64(took) > best+rest/2:
		a.limit.Store(max(fewestAdmitted, limit-slowStep))
	case waits && int64(took) < best+rest/4:
		a.limit.Store(min(mostAdmitted, limit+1))
	}
}

// slowStep is by how much the limit shrinks for a slow call: there is to be one for several quick ones, as the slowest must
// stay below the deadline.
const slowStep = 4

// bestMemory is for how many calls, about, the quickest is remembered.
const bestMemory = 1024

// enter waits until a decision of a shard is admitted, and reports whether it waited. If how is itsTurn, it must leave.
func (g *Guard) enter(ctx context.Context, s *shard) (waited bool, how standing) {
	if s.admission.enter() {
		return false, itsTurn
	}
	g.counters.queued.Add(1)
	return true, s.admission.wait(ctx, queueWait*g.options.Deadline)
}
