package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Consumption in one window counts in the next: all of it under a sliding window, the excess under a fixed window. A
// total starts at 0 in each window, so peers that missed the end of the window before, and nodes that joined since,
// cannot learn from it what was consumed. A tally therefore also has the units that its node consumed in the window
// before, and what the node knows of all others.

// maxLevel is the largest level that a key can have: the capacity and the largest debt.
func (r *record) maxLevel() int64 { return (1 + headgate.MaxDebt) * r.plan.Capacity() }

// consumedBefore returns the units of a sliding window that all nodes consumed in the window before the open one.
func (r *record) consumedBefore() int64 {
	if r.plan.Kind != algorithm.KindWindows {
		return 0
	}
	return min(r.usage.InWindowBefore(r.plan, r.window.start), r.maxLevel())
}

// hasEarlier reports whether units of earlier windows count in the open one.
func (r *record) hasEarlier() bool {
	earlier := r.window.units()
	return r.plan.HasWindows() && (earlier.carried > 0 || earlier.ownPrevious > 0 || r.consumedBefore() > 0)
}

// earlierUnits are units of earlier windows, and what they cause in the open one.
type earlierUnits struct {
	carried     int64 // units carried into a fixed window; see carries
	previous    int64 // that all nodes consumed in the window before, by the totals that this node received; see endWindow
	ownPrevious int64 // that this node consumed in the window before
	finished    int64 // consumed in the open window by peers whose next window has started already
}

// units returns the units of earlier windows.
func (w *windowState) units() earlierUnits {
	if w.earlier == nil {
		return earlierUnits{}
	}
	return *w.earlier
}

// set replaces the units of earlier windows.
func (w *windowState) set(units earlierUnits) {
	if w.earlier != nil || units != (earlierUnits{}) {
		*w.change() = units
	}
}

// change returns the units of earlier windows, to change them.
func (w *windowState) change() *earlierUnits {
	if w.earlier == nil {
		w.earlier = &earlierUnits{}
	}
	return w.earlier
}

// raiseBefore raises the number of units that all nodes consumed in the window before the open one, which is a sliding
// window, to a target. It never lowers the number.
func (r *record) raiseBefore(target int64, now moment) {
	if more := min(target, r.maxLevel()) - r.usage.InWindowBefore(r.plan, r.window.start); more > 0 {
		r.usage.ChargeWindowBefore(r.plan, r.window.start, r.clock(now), more)
	}
}

// findMissed finds the units that a peer consumed in the window before that of its tally, and that this node did not
// receive. The tally is the first of its window.
func (u *update) findMissed(r *record) {
	windows := (r.window.start - u.Window) / max(1, r.plan.Period) // from the tally's window to the open one
	if !r.plan.HasWindows() || u.Window > r.window.start && windows == 0 {
		windows = -1
	}
	known := int64(0)
	switch ago := int64(u.peer.windowsAgo); {
	case !r.plan.HasWindows() || r.join.totalsVoid || u.Reset:
		return
	case !u.firstTally && ago <= windows:
		return // the total started again within its window
	case !u.firstTally && ago == windows+1 && ago < longAgo:
		known = u.peer.total
	}
	u.missed = max(0, min(u.Previous, r.maxLevel())-known)
	if windows < 0 {
		r.window.change().finished += r.plan.AllowedPart(known + u.missed)
	}
}

// chargeEarlier charges units of the windows before that of an update, which this node did not receive in time.
func (l *Ledger) chargeEarlier(r *record, u *update, now moment) {
	if u.Carried|u.AllPrevious|u.missed == 0 || !r.plan.HasWindows() || r.join.totalsVoid {
		return
	}
	switch {
	case u.Window == r.window.start:
		if r.tookOver() {
			return // the units that this record took over include those of earlier windows
		}
		r.raiseCarried(u.Carried, now)
		if r.plan.Kind == algorithm.KindWindows {
			r.raiseBefore(u.AllPrevious, now)
		}
		if u.missed > 0 {
			r.chargePastWindow(min(u.Previous, r.maxLevel())-u.missed, min(u.Previous, r.maxLevel()), now)
		}
	case u.Window > r.window.start:
		l.chargePeers(r, u.missed, r.window.start, now)
	}
}
