package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// An extraCounter counts under a part of a record's limit. A request must be allowed by it and by the record's own
// counter. A record can have two extra counters:
//
//   - local counts what this node consumed, under LedgerOptions.LocalCap percent of the limit.
//   - liveShare counts what all reachable nodes consumed, under their share of the limit, while checks may use only
//     that share; see request.liveSharePlan. It is dropped when the whole limit may be used again. Meanwhile the record's
//     own counter counts under the whole limit, so that nodes can compare their levels afterwards.
type extraCounter struct {
	quota.Counter
	plan *quota.Plan
}

// extraCounters returns the local and the liveShare counter, each of which may be nil.
func (r *record) extraCounters() [2]*extraCounter {
	return [2]*extraCounter{r.optional.local, r.optional.liveShare}
}

// setLiveShare adds, changes or drops the liveShare counter of a record, as the request needs it.
func (l *Ledger) setLiveShare(r *record, req *request, now moment) {
	at := r.clock(now)
	switch share := r.optional.liveShare; {
	case req.liveSharePlan == nil:
		r.optional.liveShare = nil
	case share == nil:
		r.optional.liveShare = &extraCounter{plan: req.liveSharePlan}
		r.optional.liveShare.add(quota.Scale(r.level(now), req.live, req.known), at)
	default:
		share.changePlan(planChange{plan: req.liveSharePlan, lastDecision: at, now: at})
	}
}

// add charges units regardless of the limit.
func (c *extraCounter) add(units, at int64) {
	if units > 0 {
		c.Charge(c.plan, at, min(units, headgate.MaxCount))
	}
}

// A planChange is a change of the plan of an extraCounter. Times are in µs by the clock of the new plan.
type planChange struct {
	plan         *quota.Plan
	lastDecision int64 // when a bucket starts to drain at the new rate; other algorithms do not use it
	clockShift   int64 // how far the clock of the new plan is ahead of that of the old plan; 0 for buckets
	now          int64
}

// changePlan makes the counter count under another plan.
func (c *extraCounter) changePlan(to planChange) {
	old, p := c.plan, to.plan
	c.plan = p
	switch {
	case old == p || p.IsBucket() && p.SameRate(old):
	case p.IsBucket():
		c.ChangeRate(old, p, to.lastDecision, to.now)
	default:
		c.Adopt(old, p, to.clockShift, to.now)
	}
}

// hasExtraCounters reports whether a record has an extra counter. Most records have none, and their decisions skip the
// loops over extraCounters.
func (r *record) hasExtraCounters() bool {
	return r.optional.local != nil || r.optional.liveShare != nil
}

// allowedByExtraCounters reports whether the extra counters allow n units.
func (r *record) allowedByExtraCounters(n, at int64) bool {
	for _, c := range r.extraCounters() {
		if c != nil && !c.Decide(c.plan, at, n).Allowed {
			return false
		}
	}
	return true
}

// addToExtraCounters charges units of this node to the extra counters.
func (r *record) addToExtraCounters(n, at int64) {
	for _, c := range r.extraCounters() {
		if c != nil {
			c.add(n, at)
		}
	}
}

// applyExtraCounters changes a decision on n units to the tightest decision of all counters. With 0 units, it only
// tightens the figures of a decision that was already made.
func (r *record) applyExtraCounters(d *headgate.Decision, n, at int64) {
	for _, c := range r.extraCounters() {
		if c != nil {
			other := c.Decide(c.plan, at, n)
			tighten(d, &other)
		}
	}
}

// tighten changes d to the tighter of two decisions, for each figure.
func tighten(d, other *headgate.Decision) {
	d.Limit = min(d.Limit, other.Limit)
	d.Remaining = min(d.Remaining, other.Remaining)
	d.ResetAfter = max(d.ResetAfter, other.ResetAfter)
	if other.Allowed {
		return
	}
	if d.Allowed {
		d.Receipt, d.Delay = headgate.Receipt{}, 0
	}
	d.Allowed = false
	d.RetryAfter = max(d.RetryAfter, other.RetryAfter)
}
