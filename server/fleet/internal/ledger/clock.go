package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// at returns the time by the clock that keys of a plan use, in µs since 1970. The offset is 0 unless the limit is
// staggered.
func (now moment) at(p *quota.Plan, offset int64) int64 {
	if !p.HasWindows() {
		return now.micros
	}
	return now.micros + now.clockAhead - offset
}

// moveWindowBack moves a record to the current window after the clock was set back far.
func (l *Ledger) moveWindowBack(r *record, w int64, now moment) {
	at := r.at(now)
	r.window.start, r.window.clockAhead, r.requestedAt, r.updatedAt, r.emptyAt = w, now.clockAhead, at, at, at
	r.consumed = quota.Counter{}
	r.consumed.Charge(r.plan, at, min(r.plan.Capacity(), headgate.MaxCount))
	if r.optional.local != nil {
		r.optional.local.Counter = quota.Counter{}
	}
	r.owed, r.debt.deepest, r.window.carried, r.window.previous = 0, 0, 0, 0
	r.restart(now)
}

// SetClockAhead makes windows use a clock that is ahead of this node's by d.
func (l *Ledger) SetClockAhead(d time.Duration) { l.clockAhead.Store(d.Microseconds()) }

// WallClock returns the time of day of this node at an uptime, since 1970.
func (l *Ledger) WallClock(uptime time.Duration) time.Duration {
	return time.Duration(l.epoch)*time.Microsecond + uptime
}

// Time returns the current time by the clock that keys of a plan use, in µs since 1970.
func (l *Ledger) Time(p *quota.Plan, offset int64) int64 { return l.now().at(p, offset) }
