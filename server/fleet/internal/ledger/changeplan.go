package ledger

import (
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// When the limit of a bucket changes, consumed units stay consumed. They drain at the old rate until the latest decision
// (see record.deny), and at the new rate after that. At that time, the level is rounded up to a whole unit.

// applyLimit makes a record count under the plan p, and advances it to the time now. A record whose key was denied is
// not evicted until the key has drained.
func (l *Ledger) applyLimit(r *record, p *quota.Plan, offset int64, now moment) {
	if r.plan != p || r.limitReplaced() {
		l.changePlan(r, p, offset, now)
	}
	l.advance(r, now)
	r.status.noEviction = (r.status.noEviction || r.status.denied) && !r.drained(now)
}

// changePlan makes a record count under another plan, whose algorithm has the same kind of state. If the key has
// another current record, r becomes the current record.
func (l *Ledger) changePlan(r *record, p *quota.Plan, offset int64, now moment) {
	if r.limitReplaced() {
		l.replace(r.current(), r, p, offset, now)
		return
	}
	old, clockBefore := r.plan, r.time(now)
	r.plan, r.offset = p, offset
	switch {
	case old.IsBucket():
		if !p.SameRate(old) {
			l.changeRate(r, old, now)
		} else if r.extra.local != nil {
			r.extra.local.Plan = l.localPlan(p)
		}
	case old.StateFormat() != p.StateFormat(): // plans with the same format can use each other's state
		at := r.time(now)
		shift := at - clockBefore
		r.usage.Adopt(old, p, shift, at)
		if r.extra.local != nil {
			r.extra.local.ChangePlan(quota.PlanChange{Plan: l.localPlan(p), ClockShift: shift, Now: at})
		}
		r.requestedAt, r.changedAt, r.updatedAt = r.requestedAt+shift, r.changedAt+shift, r.updatedAt+shift
		if old.Period != p.Period || shift != 0 {
			// The window that contains now is another one under the new plan.
			r.window.start, r.window.clockAhead = p.WindowOf(at), now.clockAhead
		}
	}
}

// changeRate makes a bucket drain at the rate of its new plan, starting from its latest decision.
func (l *Ledger) changeRate(r *record, old *quota.Plan, now moment) {
	at := r.time(now)
	last := min(r.changedAt, at)
	if observed := r.extra.observed; observed != nil {
		observed.level -= old.DrainedOf(max(0, observed.level), last-observed.observedAt)
		observed.observedAt = max(last, observed.observedAt)
	}
	if r.usage.ChangeRate(old, r.plan, last, at) {
		r.emptyAt = last + r.usage.Decide(r.plan, last, 0).ResetAfter.Microseconds()
	}
	// emptyTime stands for the units that could have drained in that time. Convert it, so that it stands for the same
	// number of units at the new rate.
	convert := func(micros int64) int64 { return r.plan.TimeFor(old.UnitsIn(micros)) }
	r.emptyTime = convert(r.emptyTime)
	for i := range r.peers {
		peer := &r.peers[i]
		peer.emptyTime, peer.emptyTimeWhenEqual = convert(peer.emptyTime), convert(peer.emptyTimeWhenEqual)
	}
	if r.extra.local != nil {
		r.extra.local.ChangePlan(quota.PlanChange{Plan: l.localPlan(r.plan), LastDecision: last, Now: at})
	}
}
