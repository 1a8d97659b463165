// Package renewal renews a lease again and again for as long as it is held.
package renewal

import (
	"sync"
	"time"
)

// share is how many times a lease is renewed in its TTL: it outlives renewals that fail for two thirds of that time.
const share = 3

// least is the shortest time between two renewals. Leases of a TTL that is not much longer expire between them.
const least = time.Millisecond

// A Renewal calls a function again and again, until it is stopped. The zero Renewal is ready. It can be started again
// once it was stopped, which allocates nothing. Start and Stop must not be called at the same time.
type Renewal struct {
	mu    sync.Mutex // held while renew runs
	timer *time.Timer
	every time.Duration
	renew func() // nil if it is stopped
}

// Start has renew called three times in each TTL from now on, by one goroutine at a time.
func (r *Renewal) Start(ttl time.Duration, renew func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.every, r.renew = max(ttl/share, least), renew
	if r.timer == nil {
		r.timer = time.AfterFunc(r.every, r.run)
		return
	}
	r.timer.Reset(r.every)
}

// run renews once. The timer may have fired before a Stop that came first, and before another Start: renewing too early
// does no harm.
func (r *Renewal) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renew == nil {
		return
	}
	r.renew()
	r.timer.Reset(r.every)
}

// Stop ends it, and waits for a call of renew that is under way. It is not called afterwards.
func (r *Renewal) Stop() {
	if r.timer == nil { // it was never started
		return
	}
	r.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew = nil
}
