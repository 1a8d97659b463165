package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// at returns a moment by the clock that keys of a plan go by.
func (now moment) at(p *quota.Plan, offset int64) int64 {
	switch {
	case p.IsBucket():
		return now.micros
	case p.Limit.Staggered:
		return now.micros + now.ahead - offset
	case p.HasWindows():
		return now.micros + now.ahead
	default:
		return now.micros
	}
}

// redate moves a record whose window is far in the future, as the date was set back, to the one that is.
func (l *Ledger) redate(r *record, w int64, now moment) {
	at := r.at(now)
	r.window, r.ahead, r.askedAt, r.heardAt, r.emptyAt = w, now.ahead, at, at, at
	r.here = quota.Counter{}
	r.here.Charge(r.plan, at, min(r.plan.Capacity(), headgate.MaxCount))
	if r.alone != nil {
		*r.alone = quota.Counter{}
	}
	r.owed, r.over, r.carried, r.before = 0, 0, 0, 0
	r.restart(now)
}

// SetClockAhead has windows go by a date that is so much later than the clock's own.
func (l *Ledger) SetClockAhead(d time.Duration) { l.ahead.Store(d.Microseconds()) }

// WallClock returns this host's own date at an uptime, since 1970.
func (l *Ledger) WallClock(uptime time.Duration) time.Duration {
	return time.Duration(l.epoch)*time.Microsecond + l.began + uptime
}

// Time returns the present time by the clock that keys of a plan go by.
func (l *Ledger) Time(p *quota.Plan, offset int64) int64 { return l.now().at(p, offset) }
