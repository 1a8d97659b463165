package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A record can have two extra counters, each with a part of the record's limit. A request is allowed only if the
// record's own counter and the extra counters allow it:
//
//   - local counts the units that this node consumed. Its limit is LedgerOptions.LocalCap percent of the limit.
//   - liveShare counts the units that all reachable nodes consumed. Its limit is the share of the live nodes. It exists
//     while checks may use only that share; see request.sharePlan. The record's own counter still counts under the
//     whole limit, so that nodes can compare their levels later.

// extraCounters returns the local and the liveShare counter, each of which may be nil.
func (r *record) extraCounters() [2]*quota.Bound {
	return [2]*quota.Bound{r.extra.local, r.extra.liveShare}
}

// setLiveShare adds, changes or drops the liveShare counter of a record, depending on the request.
func (l *Ledger) setLiveShare(r *record, req *request, now moment) {
	at := r.time(now)
	switch share := r.extra.liveShare; {
	case req.sharePlan == nil:
		r.extra.liveShare = nil
	case share == nil:
		r.extra.liveShare = &quota.Bound{Plan: req.sharePlan}
		r.extra.liveShare.Add(quota.Scale(r.level(now), req.allowance.Part, req.allowance.Whole), at)
	default:
		share.ChangePlan(quota.PlanChange{Plan: req.sharePlan, LastDecision: at, Now: at})
	}
}

// hasExtraCounters reports whether a record has an extra counter. Most records have none, and their decisions skip the
// loops over extraCounters.
func (r *record) hasExtraCounters() bool {
	return r.extra.local != nil || r.extra.liveShare != nil
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

// applyExtraCounters changes a decision on n units to the tightest decision of all counters. If n is 0, it changes only
// the figures of the decision.
func (r *record) applyExtraCounters(d *headgate.Decision, n, at int64) {
	for _, c := range r.extraCounters() {
		if c != nil {
			c.Tighten(d, n, at)
		}
	}
}
