package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Before nodes have received each other's updates, they can together admit more than the limit in a fixed window. The
// excess is carried: it counts as consumed in the next window, so it is repaid. If it is more than the limit, the rest
// counts in the window after that, and so on.
//
// Each node computes the excess from totals, so all nodes get the same result. The units of a window are the units
// carried into it plus, for each node, the part of its total that its own counter can have allowed. The other units
// were charged regardless of the limit (see [headgate.Limiter.Charge]). They end with their window, as in any store.
// Updates of a past window are applied when they arrive. Tallies contain the excess, for nodes that have not received
// all totals.

// carries reports whether the excess of one window of a record is carried into the next.
func (r *record) carries() bool { return r.plan.Kind == algorithm.KindFixedWindow && r.plan.Shared }

// takenInWindow returns the units that count in the open window: units carried into it, and units that this node and
// its peers took in it.
func (r *record) takenInWindow() int64 {
	if r.join.totalsVoid {
		return 0 // the key was reset, and totals include units from before the reset
	}
	earlier := r.window.units()
	sum := earlier.carried + earlier.finished + r.plan.AllowedPart(r.total)
	for i := range r.peers {
		if peer := &r.peers[i]; !peer.pastWindow() && !peer.nextWindow() {
			sum += r.plan.AllowedPart(peer.total)
		}
	}
	return min(sum, r.maxPending())
}

// endWindow ends the open window, and computes the units of it that count in the window that starts at w. Afterwards
// the stored totals of peers belong to a past window, except those of peers that have already started the next window.
func (r *record) endWindow(w int64) {
	r.forgetMoved()
	ended := (w - r.window.start) / r.plan.Period
	var units earlierUnits
	switch {
	case r.carries():
		units.carried = r.window.units().carried
		level := r.takenInWindow()
		// One step per window that has ended, but no more than it takes to repay the whole level.
		for range min(ended, level/r.plan.Capacity()+2) {
			units.carriedBefore, units.previous, level = units.carried, level, max(0, level-r.plan.Capacity())
			units.carried = level
		}
	case r.plan.Kind == algorithm.KindSlidingWindow:
		units.previous = r.usage.InWindowBefore(r.plan, w)
	}
	if ended == 1 {
		units.ownPrevious = min(r.total, r.maxLevel())
		r.status.sendLevel = r.status.sendLevel || r.total != r.delivered // peers do not know the last units
	}
	r.window.set(units)
	r.join.totalsVoid = false
	for i := range r.peers {
		peer := &r.peers[i]
		peer.windowsAgo = int8(min(int64(peer.windowsAgo)+ended, longAgo))
	}
}

// chargeCarried charges n units that are carried into the open window. Units beyond the maximum debt become pending.
func (r *record) chargeCarried(n int64, now moment) {
	if rest := r.chargeBounded(n, now); rest > 0 {
		r.addPending(rest, r.window.start)
	}
}

// raiseCarried raises the number of units carried into the open window to at least target.
func (r *record) raiseCarried(target int64, now moment) {
	if target = min(target, r.maxPending()); target > r.window.units().carried {
		r.chargeCarried(target-r.window.units().carried, now)
		r.window.change().carried = target
	}
}

// chargePastWindow applies an update of the previous window: in it, the total of one node has grown.
func (r *record) chargePastWindow(from, to int64, now moment) {
	earlier := r.window.change()
	if !r.carries() {
		earlier.previous += to - from
		r.raiseBefore(earlier.previous, now)
		return
	}
	earlier.previous += r.plan.AllowedPart(to) - r.plan.AllowedPart(from)
	r.raiseCarried(earlier.previous-r.plan.Capacity(), now)
}

// addCarriedWait adds to a denial of n units the time of the next windows that carried units use up.
func (r *record) addCarriedWait(d *headgate.Decision, n int64) {
	if len(r.peers) == 0 && r.window.units().carried == 0 || d.RetryAfter == headgate.Never {
		return
	}
	capacity := r.plan.Capacity()
	excess := r.takenInWindow() - capacity
	if excess <= 0 {
		return
	}
	windows := func(n int64) time.Duration {
		const maxMicros = 1 << 52 // can be added to other times without overflow of time.Duration
		return time.Duration(min((n+capacity-1)/capacity, maxMicros/r.plan.Period)*r.plan.Period) * time.Microsecond
	}
	d.ResetAfter += windows(excess)
	if excess+n > capacity {
		d.RetryAfter += windows(excess + n - capacity)
	}
}
