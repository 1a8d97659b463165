package lease

import (
	"sync"
	"time"
)

// roundInterval is the minimum time between two rounds of calls. It is much shorter than the default TTL of grants, and
// long enough that a node with thousands of keys makes few calls.
const roundInterval = 750 * time.Microsecond

// rounds start calls of the source together: calls that are requested less than roundInterval after a round start with
// the next round. A source such as redisstore.Store makes one call of grants that are requested at the same moment.
type rounds struct {
	mu      sync.Mutex
	last    time.Duration // when the last round started
	started bool          // there was one
	waiting []pendingCall
}

// A pendingCall is a call that has not started.
type pendingCall struct {
	run    func()
	cancel func() // called instead of run if the limiter is closed
}

// startInRound starts a call, at once or with the next round. It returns false if the limiter is closed.
func (l *Limiter) startInRound(c pendingCall, now time.Duration) bool {
	r := &l.rounds
	r.mu.Lock()
	next := r.last + roundInterval
	if len(r.waiting) == 0 && (!r.started || now >= next) {
		r.last, r.started = now, true
		r.mu.Unlock()
		return l.start(c.run)
	}
	defer r.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	r.waiting = append(r.waiting, c)
	if len(r.waiting) == 1 {
		l.clock.AfterFunc(next-now, l.startRound)
	}
	return true
}

// startRound starts the calls that wait for the next round.
func (l *Limiter) startRound() {
	r := &l.rounds
	r.mu.Lock()
	calls := r.waiting
	r.waiting, r.last = nil, l.clock.Elapsed()
	r.mu.Unlock()
	for _, c := range calls {
		if !l.start(c.run) {
			c.cancel()
		}
	}
}
