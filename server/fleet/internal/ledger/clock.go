package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// clockOf returns the time in µs since 1970 by the clock that keys of a plan use. Limits with windows use the fleet's
// clock minus the offset, which is 0 unless the limit is staggered. Buckets use this node's clock.
func (now moment) clockOf(p *quota.Plan, offset int64) int64 {
	if !p.HasWindows() {
		return now.micros
	}
	return now.micros + now.clockAhead - offset
}

// moveWindowBack moves a record to the window that starts at w, after the fleet's clock was set back by more than a
// window. The consumption in that window is unknown, so all requests for the key are denied until the window ends.
func (l *Ledger) moveWindowBack(r *record, w int64, now moment) {
	at := r.time(now)
	r.window.start, r.window.clockAhead, r.requestedAt, r.updatedAt, r.emptyAt = w, now.clockAhead, at, at, at
	r.usage = quota.Counter{}
	r.usage.Charge(r.plan, at, min(r.plan.Capacity(), headgate.MaxCount))
	if r.extra.local != nil {
		r.extra.local.Counter = quota.Counter{}
	}
	r.pending, r.debt.deepest = 0, 0
	r.window.earlier = nil
	r.restartTotal(now)
}

// SetClockAhead sets how far the fleet's clock, which windows use, is ahead of this node's clock.
func (l *Ledger) SetClockAhead(d time.Duration) { l.clockAhead.Store(d.Microseconds()) }

// WallClock returns the time since 1970 at an uptime, by this node's clock.
func (l *Ledger) WallClock(uptime time.Duration) time.Duration {
	return time.Duration(l.epoch)*time.Microsecond + uptime
}

// Time returns the current time in µs since 1970 by the clock that keys of a plan use; see clockOf.
func (l *Ledger) Time(p *quota.Plan, offset int64) int64 { return l.now().clockOf(p, offset) }
