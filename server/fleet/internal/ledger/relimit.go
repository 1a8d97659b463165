package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// When the rate of a bucket changes, consumption stays: the level at the latest decision under the old limit, rounded
// up to a whole unit, counts as consumed at that decision and drains at the new rate from then on. Only decisions that
// changed the level count, as in any store. A denial counts as well while there is a debt that peers caused: the debt
// causes the denial, and has drained at the old rate until then.

// update updates a record to now, for a check under a plan.
func (l *Ledger) update(r *record, p *quota.Plan, offset int64, now moment) {
	if r.plan != p || r.replaced() {
		l.relimit(r, p, offset, now)
	}
	l.advance(r, now)
	r.status.protected = (r.status.protected || r.status.denied) && !r.drained(now)
}

// relimit puts a record under another plan of its kind, or makes it replace the record in force, which is of another
// kind.
func (l *Ledger) relimit(r *record, p *quota.Plan, offset int64, now moment) {
	if r.replaced() {
		l.replace(r.current(), r, p, offset, now)
		return
	}
	old, before := r.plan, r.at(now)
	r.plan, r.offset = p, offset
	switch {
	case old.IsBucket():
		if !p.SameRate(old) {
			l.changeRate(r, old, now)
		} else if r.optional.local != nil {
			r.optional.local.plan = l.localPlan(p)
		}
	case old.Shape() != p.Shape():
		at := r.at(now)
		shift := at - before
		r.consumed.Adopt(old, p, shift, at)
		if r.optional.local != nil {
			r.optional.local.relimit(l.localPlan(p), at, shift, at)
		}
		r.requestedAt, r.changedAt, r.updatedAt = r.requestedAt+shift, r.changedAt+shift, r.updatedAt+shift
		if old.Period != p.Period || shift != 0 {
			r.window.start, r.window.clockAhead = p.WindowOf(at), now.clockAhead // by the new period
		}
	}
}

// changeRate makes a bucket drain at the rate of its new plan from its latest decision on.
func (l *Ledger) changeRate(r *record, old *quota.Plan, now moment) {
	at := r.at(now)
	last := r.lastDecision(at)
	if g := r.optional.observed; g != nil {
		g.level -= old.UnitsIn(last-g.at, max(0, g.level))
		g.at = max(last, g.at)
	}
	if r.consumed.ChangeRate(old, r.plan, last, at) {
		r.emptyAt = last + r.consumed.Decide(r.plan, last, 0).ResetAfter.Microseconds()
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
