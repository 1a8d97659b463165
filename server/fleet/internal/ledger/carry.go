package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Nodes that do not know of each other yet admit more in a fixed window than its limit. The excess counts as consumed
// in the next window, so it is repaid. If it is more than the limit, the window after that gets the rest, and so on.
//
// Each node computes the excess from totals, so all get the same result: for each node, the part of its total that its
// own counter can have allowed, and the units carried into the window. Other units were charged regardless of the limit
// (see [headgate.Limiter.Charge]), and end with their window as in any store. Updates of a past window count as soon as
// they arrive. Tallies carry the excess for nodes that did not see it.

// carries reports whether excess is carried from one window of a record to the next.
func (r *record) carries() bool { return r.plan.Kind == algorithm.KindWindow && r.plan.Shared }

// takenByAll returns the units that count in the open window: those carried into it, and those that this node and its
// peers took in it.
func (r *record) takenByAll() int64 {
	if r.join.totalsVoid {
		return 0 // totals include units that do not count
	}
	sum := r.window.carried + r.plan.AllowedPart(r.total)
	for i := range r.peers {
		if peer := &r.peers[i]; !peer.pastWindow && !peer.nextWindow {
			sum += r.plan.AllowedPart(peer.total)
		}
	}
	return min(sum, r.maxOwed())
}

// endWindow computes what is carried from the open window into the one that starts at w. Known totals of peers belong
// to the past window from now on, except those of peers that are ahead.
func (r *record) endWindow(w int64) {
	r.forgetMoved()
	if !r.carries() {
		r.window.carried = 0
		return
	}
	level := r.takenByAll()
	for range min((w-r.window.start)/r.plan.Period, level/r.plan.Capacity()+2) {
		r.window.previous = level
		level = max(0, level-r.plan.Capacity())
	}
	r.window.carried = level
	r.join.totalsVoid = false
	for i := range r.peers {
		peer := &r.peers[i]
		peer.pastWindow, peer.nextWindow = !peer.nextWindow, false
	}
}

// chargeCarried charges n units that are carried into the open window.
func (r *record) chargeCarried(n int64, now moment) {
	d := r.consumed.Charge(r.plan, r.at(now), min(n, headgate.MaxCount))
	r.changedAt = r.at(now)
	if rest := n - d.Receipt.Units; rest > 0 {
		r.owe(rest, r.window.start)
	}
}

// raiseCarried raises the units carried into the open window.
func (r *record) raiseCarried(to int64, now moment) {
	if to = min(to, r.maxOwed()); to > r.window.carried {
		r.chargeCarried(to-r.window.carried, now)
		r.window.carried = to
	}
}

// chargePastWindow applies an update of the previous window: a node's total in it grew.
func (r *record) chargePastWindow(from, to int64, now moment) {
	r.window.previous += r.plan.AllowedPart(to) - r.plan.AllowedPart(from)
	r.raiseCarried(r.window.previous-r.plan.Capacity(), now)
}

// addCarriedWait adds to a denial of n units how long the next windows stay closed because of carried units.
func (r *record) addCarriedWait(d *headgate.Decision, n int64) {
	if len(r.peers) == 0 && r.window.carried == 0 || d.RetryAfter == headgate.Never {
		return
	}
	capacity := r.plan.Capacity()
	excess := r.takenByAll() - capacity
	if excess <= 0 {
		return
	}
	windows := func(n int64) time.Duration {
		const most = 1 << 52 // µs that can be added to a time.Duration without overflow
		return time.Duration(min((n+capacity-1)/capacity, most/r.plan.Period)*r.plan.Period) * time.Microsecond
	}
	d.ResetAfter += windows(excess)
	if excess+n > capacity {
		d.RetryAfter += windows(excess + n - capacity)
	}
}
