package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// If the rate of a bucket changes, the consumed units stay. The level at the latest decision under the old limit, rounded
// up to a whole unit, counts as consumed at the time of that decision and drains at the new rate from then on. As in any
// store, only decisions that changed the level count here. Denials count as well while the bucket has a debt that peers
// caused: the debt causes the denial, and it has drained at the old rate until then.

// applyLimit puts a record under the plan of a check, and brings it up to date.
func (l *Ledger) applyLimit(r *record, p *quota.Plan, offset int64, now moment) {
	if r.plan != p || r.replaced() {
		l.relimit(r, p, offset, now)
	}
	l.advance(r, now)
	r.status.protected = (r.status.protected || r.status.denied) && !r.drained(now)
}

// relimit puts a record under another plan of its kind. If the key is counted in a record of another kind now, the record
// replaces that one.
func (l *Ledger) relimit(r *record, p *quota.Plan, offset int64, now moment) {
	if r.replaced() {
		l.replace(r.current(), r, p, offset, now)
		return
	}
	old, clockBefore := r.plan, r.clock(now)
	r.plan, r.offset = p, offset
	switch {
	case old.IsBucket():
		if !p.SameRate(old) {
			l.changeRate(r, old, now)
		} else if r.optional.local != nil {
			r.optional.local.plan = l.localPlan(p)
		}
	case old.Shape() != p.Shape():
		at := r.clock(now)
		shift := at - clockBefore
		r.usage.Adopt(old, p, shift, at)
		if r.optional.local != nil {
			r.optional.local.relimit(l.localPlan(p), at, shift, at)
		}
		r.requestedAt, r.changedAt, r.updatedAt = r.requestedAt+shift, r.changedAt+shift, r.updatedAt+shift
		if old.Period != p.Period || shift != 0 {
			r.window.start, r.window.clockAhead = p.WindowOf(at), now.clockAhead // by the new period
		}
	}
}

// changeRate makes a bucket drain at the rate of its new plan, starting from its latest decision.
func (l *Ledger) changeRate(r *record, old *quota.Plan, now moment) {
	at := r.clock(now)
	last := r.lastDecision(at)
	if observed := r.optional.observed; observed != nil {
		observed.level -= old.UnitsIn(last-observed.observedAt, max(0, observed.level))
		observed.observedAt = max(last, observed.observedAt)
	}
	if r.usage.ChangeRate(old, r.plan, last, at) {
		r.emptyAt = last + r.usage.Decide(r.plan, last, 0).ResetAfter.Microseconds()
	}
	// Units that did not drain while the bucket was empty stay the same.
	rescale := func(micros int64) int64 { return r.plan.TimeFor(old.UnitsIn(micros, headgate.MaxCount)) }
	r.emptyTime = rescale(r.emptyTime)
	for i := range r.peers {
		peer := &r.peers[i]
		peer.emptyTime, peer.emptyAtLevel = rescale(peer.emptyTime), rescale(peer.emptyAtLevel)
	}
	if r.optional.local != nil {
		r.optional.local.relimit(l.localPlan(r.plan), last, 0, at)
	}
}
