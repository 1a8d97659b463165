package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Nodes that have not heard of each other yet let more pass in a fixed window than its limit. The excess counts as consumed in
// the next window, so that it is repaid; if it is more than the limit, the window after that gets the rest, and so on.
//
// Each node works it out from totals, so that all come to the same: of each node, as much as its own counter can have allowed,
// and what was carried into the window. Units beyond that were charged whatever the limit said (see [headgate.Limiter.Charge]),
// and go with their window as in any store. News of the window that is over counts as soon as it comes; notes tell what was
// carried, for nodes that did not see it.

// carries reports whether excess is carried from one window of a record to the next.
func (r *record) carries() bool { return r.plan.Kind == algorithm.KindWindow && r.plan.Shared }

// takenByAll returns what was carried into the window that is open, and what nodes took in it as far as is known.
func (r *record) takenByAll() int64 {
	if r.void {
		return 0 // totals say more than what counts
	}
	sum := r.carried + r.plan.Takable(r.total)
	for i := range r.seen {
		if s := &r.seen[i]; !s.past && !s.ahead {
			sum += r.plan.Takable(s.total)
		}
	}
	return min(sum, r.mostOwed())
}

// endWindow notes what is carried from the window that is open to the one that begins at w. The totals known of peers are of the
// past from now on, but for those of peers that are ahead.
func (r *record) endWindow(w int64) {
	r.forgetMoved()
	if !r.carries() {
		r.carried = 0
		return
	}
	level := r.takenByAll()
	for range min((w-r.window)/r.plan.Period, level/r.plan.Capacity()+2) {
		r.before = level
		level = max(0, level-r.plan.Capacity())
	}
	r.carried = level
	r.void = false
	for i := range r.seen {
		s := &r.seen[i]
		s.past, s.ahead = !s.ahead, false
	}
}

// bringForward counts what was carried into a window that has just begun.
func (r *record) bringForward(now moment) {
	if r.carried > 0 {
		r.chargeCarried(r.carried, now)
	}
}

func (r *record) chargeCarried(n int64, now moment) {
	d := r.here.Charge(r.plan, r.at(now), min(n, headgate.MaxCount))
	r.changedAt = r.at(now)
	if rest := n - d.Receipt.Units; rest > 0 {
		if r.owedOf != r.window {
			r.owed = 0
		}
		r.owed, r.owedOf = min(r.owed+rest, r.mostOwed()), r.window
	}
}

// carryMore raises what was carried into the window that is open.
func (r *record) carryMore(to int64, now moment) {
	if to = min(to, r.mostOwed()); to > r.carried {
		r.chargeCarried(to-r.carried, now)
		r.carried = to
	}
}

// heedPast takes news of the window before the one that is open: of a node that took from units in it, then more.
func (r *record) heedPast(from, to int64, now moment) {
	r.before += r.plan.Takable(to) - r.plan.Takable(from)
	r.carryMore(r.before-r.plan.Capacity(), now)
}

// describeCarried adds to a denial of n units how long the windows to come stay closed by what is carried into them.
func (r *record) describeCarried(d *headgate.Decision, n int64) {
	if len(r.seen) == 0 && r.carried == 0 || d.RetryAfter == headgate.Never {
		return
	}
	capacity := r.plan.Capacity()
	excess := r.takenByAll() - capacity
	if excess <= 0 {
		return
	}
	windows := func(n int64) time.Duration {
		const most = 1 << 52 // µs that can be added to others, in nanoseconds
		return time.Duration(min((n+capacity-1)/capacity, most/r.plan.Period)*r.plan.Period) * time.Microsecond
	}
	d.ResetAfter += windows(excess)
	if excess+n > capacity {
		d.RetryAfter += windows(excess + n - capacity)
	}
}
