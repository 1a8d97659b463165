package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A record can have two extra counters, which count under a part of its limit. A request must be allowed by them and by
// the record's own counter:
//
//   - local counts what this node consumed, under LedgerOptions.LocalCap percent of the limit.
//   - liveShare counts what all reachable nodes consumed, under their share of the limit, while checks may use only
//     that share; see request.liveSharePlan. It is dropped when the whole limit may be used again. Meanwhile the record's
//     own counter counts under the whole limit, so that nodes can compare their levels afterwards.

// extraCounters returns the local and the liveShare counter, each of which may be nil.
func (r *record) extraCounters() [2]*quota.Bound {
	return [2]*quota.Bound{r.optional.local, r.optional.liveShare}
}

// setLiveShare adds, changes or drops the liveShare counter of a record, as the request needs it.
func (l *Ledger) setLiveShare(r *record, req *request, now moment) {
	at := r.clock(now)
	switch share := r.optional.liveShare; {
	case req.liveSharePlan == nil:
		r.optional.liveShare = nil
	case share == nil:
		r.optional.liveShare = &quota.Bound{Plan: req.liveSharePlan}
		r.optional.liveShare.Add(quota.Scale(r.level(now), req.allowed.Part, req.allowed.Whole), at)
	default:
		share.ChangePlan(quota.PlanChange{Plan: req.liveSharePlan, LastDecision: at, Now: at})
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
		if c != nil && !c.Decide(c.Plan, at, n).Allowed {
			return false
		}
	}
	return true
}

// addToExtraCounters charges units of this node to the extra counters.
func (r *record) addToExtraCounters(n, at int64) {
	for _, c := range r.extraCounters() {
		if c != nil {
			c.Add(n, at)
		}
	}
}

// applyExtraCounters changes a decision on n units to the tightest decision of all counters. With 0 units, it only
// tightens the figures of a decision that was already made.
func (r *record) applyExtraCounters(d *headgate.Decision, n, at int64) {
	for _, c := range r.extraCounters() {
		if c != nil {
			c.Tighten(d, n, at)
		}
	}
}
