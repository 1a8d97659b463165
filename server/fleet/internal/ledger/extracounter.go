package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// An extraCounter counts under a part of a record's limit. It has to allow each request as well. A record can have two:
//
//   - local counts what this node consumed, under LedgerOptions.LocalCap percent of the limit.
//   - share counts what all reachable nodes consumed, under their share of the limit, while some nodes are unreachable
//     and checks have headgate.PartitionShare. It is dropped when all nodes are reachable again. The record's own
//     counter goes on under the whole limit, so that nodes can compare it then.
type extraCounter struct {
	quota.Counter
	plan *quota.Plan
}

// extraCounters returns the local and the share counter, each of which may be nil.
func (r *record) extraCounters() [2]*extraCounter {
	return [2]*extraCounter{r.optional.local, r.optional.share}
}

// setShare sets, changes or drops the share counter of a record, as the request needs it.
func (l *Ledger) setShare(r *record, q *request, now moment) {
	at := r.at(now)
	switch share := r.optional.share; {
	case q.sharePlan == nil:
		r.optional.share = nil
	case share == nil:
		r.optional.share = &extraCounter{plan: q.sharePlan}
		r.optional.share.add(quota.Scale(r.level(now), q.live, q.known), at)
	default:
		share.relimit(q.sharePlan, at, 0, at)
	}
}

// add charges units.
func (c *extraCounter) add(units, at int64) {
	if units > 0 {
		c.Charge(c.plan, at, min(units, headgate.MaxCount))
	}
}

// relimit puts the counter under another plan. A bucket drains at the new rate since the time last. Windows move by
// shift.
func (c *extraCounter) relimit(p *quota.Plan, last, shift, at int64) {
	old := c.plan
	c.plan = p
	switch {
	case old == p || p.IsBucket() && p.SameRate(old):
	case p.IsBucket():
		c.ChangeRate(old, p, last, at)
	default:
		c.Adopt(old, p, shift, at)
	}
}

// hasExtraCounters reports whether a record has any. Most have none, and their decisions are faster without the loops.
func (r *record) hasExtraCounters() bool { return r.optional.local != nil || r.optional.share != nil }

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

// tightenByExtraCounters changes a decision on n units to the tightest one of all counters.
func (r *record) tightenByExtraCounters(d *headgate.Decision, n, at int64) {
	for _, c := range r.extraCounters() {
		if c != nil {
			other := c.Decide(c.plan, at, n)
			tighten(d, &other)
		}
	}
}

// tighten changes d to the tighter one of two decisions.
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
