package lease

import (
	"sync"
	"time"
)

// roundInterval is the minimum time between two rounds of calls. It is much shorter than the default TTL of grants, but
// long enough to combine the calls of a node with thousands of keys.
const roundInterval = 750 * time.Microsecond

// rounds groups calls of the source. A call that is requested less than roundInterval after a round starts with the
// next round. Sources such as redisstore.Store combine grants that are requested at the same time into one call.
type rounds struct {
	mu      sync.Mutex
	last    time.Duration // when the last round started
	started bool          // there was a round
	waiting []pendingCall
}

// A pendingCall is a call that has not started.
type pendingCall struct {
	run    func()
	cancel func() // called instead of run if the limiter is closed
}

// startInRound starts a call immediately or with the next round. It returns false if the limiter is closed.
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
