// Package renewal renews a lease regularly for as long as it is held.
package renewal

import (
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// renewalsPerTTL is how many times a lease is renewed in its TTL. So the lease does not expire if renewals fail for
// two thirds of the TTL.
const renewalsPerTTL = 3

// minInterval is the shortest time between two renewals. Leases with a shorter TTL expire between two renewals.
const minInterval = time.Millisecond

// A Renewal calls a function at regular intervals until it is stopped. The zero Renewal is ready for use. It can be
// restarted after a Stop without an allocation. Start and Stop must not be called at the same time.
type Renewal struct {
	mu       sync.Mutex // held while renew runs
	timer    clock.Timer
	interval time.Duration
	renew    func() // nil if it is stopped
}

// Start calls renew three times in each TTL from now on, never concurrently. The clock must be the same each time.
func (r *Renewal) Start(c clock.Clock, ttl time.Duration, renew func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interval, r.renew = max(ttl/renewalsPerTTL, minInterval), renew
	if r.timer == nil {
		r.timer = c.AfterFunc(r.interval, r.run)
		return
	}
	r.timer.Reset(r.interval)
}

// run renews once. If the timer fires just before Stop and another Start, run renews the new lease too early,
// which does no harm.
func (r *Renewal) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renew == nil {
		return
	}
	r.renew()
	r.timer.Reset(r.interval)
}

// Stop waits for a call of renew that is in progress. renew is not called after Stop returns.
func (r *Renewal) Stop() {
	if r.timer == nil { // it was never started
		return
	}
	r.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew = nil
}
