package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Consumption in one window also counts in the next: all of it under a sliding window, the excess under a fixed window.
// Totals start at 0 in each window. So peers that missed the last updates of a window, and nodes that joined later,
// cannot compute its consumption from totals. A tally therefore also has the units that its node consumed in the window
// before, and the units that all nodes consumed in it, as far as the node knows.

// maxLevel is the largest level that a key can have: the capacity and the largest debt.
func (r *record) maxLevel() int64 { return (1 + headgate.MaxDebt) * r.plan.Capacity() }

// consumedBefore returns the units of a sliding window that all nodes consumed in the window before the open one.
func (r *record) consumedBefore() int64 {
	if r.plan.Kind != algorithm.KindSlidingWindow {
		return 0
	}
	return min(r.usage.InWindowBefore(r.plan, r.window.start), r.maxLevel())
}

// hasEarlier reports whether units of earlier windows count in the open one.
func (r *record) hasEarlier() bool {
	earlier := r.window.units()
	return r.plan.HasWindows() && (earlier.carried > 0 || earlier.ownPrevious > 0 || r.consumedBefore() > 0)
}

// earlierUnits has numbers of units that matter in the open window although no current total has them.
type earlierUnits struct {
	carried       int64 // carried into the open window, if it is fixed; see carries
	carriedBefore int64 // carried into the window before
	previous      int64 // consumed by all nodes in the window before, as far as this node knows; see endWindow
	ownPrevious   int64 // consumed by this node in the window before
	finished      int64 // consumed in the open window by peers that have already started the next window
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

// raiseBefore raises the number of units that all nodes consumed in the window before the open one to at least target.
// The limit has sliding windows.
func (r *record) raiseBefore(target int64, now moment) {
	if missing := min(target, r.maxLevel()) - r.usage.InWindowBefore(r.plan, r.window.start); missing > 0 {
		r.usage.ChargeWindowBefore(r.plan, r.window.start, r.time(now), missing)
	}
}

// findMissed sets u.missed. This is the number of units that the peer consumed in the window before that of its tally,
// and that this node has not received. The tally is the first of its window.
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
		return // the peer's total restarted within its window
	case !u.firstTally && ago == windows+1 && ago < longAgo:
		known = u.peer.total
	}
	u.missed = max(0, min(u.Previous, r.maxLevel())-known)
	if windows < 0 {
		r.window.change().finished += r.plan.AllowedPart(known + u.missed)
	}
}

// chargeEarlier charges units of windows before that of an update, if this node did not receive them in time.
func (l *Ledger) chargeEarlier(r *record, u *update, now moment) {
	if u.Carried|u.AllPrevious|u.missed == 0 || !r.plan.HasWindows() || r.join.totalsVoid {
		return
	}
	switch {
	case u.Window <= r.window.start && r.tookOver(): // the units that it took over include those of earlier windows
	case u.Window == r.window.start-r.plan.Period && r.carries():
		earlier := r.window.change()
		if missed := min(u.Carried, r.maxPending()) - earlier.carriedBefore; missed > 0 {
			earlier.carriedBefore, earlier.previous = earlier.carriedBefore+missed, earlier.previous+missed
			r.raiseCarried(earlier.previous-r.plan.Capacity(), now)
		}
	case u.Window == r.window.start:
		r.raiseCarried(u.Carried, now)
		if r.plan.Kind == algorithm.KindSlidingWindow {
			r.raiseBefore(u.AllPrevious, now)
		}
		if u.missed > 0 {
			r.chargePastWindow(min(u.Previous, r.maxLevel())-u.missed, min(u.Previous, r.maxLevel()), now)
		}
	case u.Window > r.window.start:
		l.chargePeers(r, u.missed, r.window.start, now)
	}
}
