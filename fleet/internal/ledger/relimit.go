package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// When the rate of a bucket changes, what was consumed stays: the level at the latest decision under the old limit, a started
// unit counted as a whole one, counts as consumed at that decision, and drains at the new rate from then on. Only decisions that
// changed the level count, as in any store; but a denial counts as well while there is a debt that others caused: the debt is
// what denies, and has drained at the old rate for as long as it did.

// arrive brings a record to now, for a check by a plan.
func (l *Ledger) arrive(r *record, p *quota.Plan, offset int64, now moment) {
	if r.plan != p || r.replaced() {
		l.relimit(r, p, offset, now)
	}
	l.roll(r, now)
	r.stays = (r.stays || r.denied) && !r.drained(now)
}

// relimit puts a record under another plan of its kind, or in force in place of one of another kind.
func (l *Ledger) relimit(r *record, p *quota.Plan, offset int64, now moment) {
	if r.replaced() {
		l.replace(r.current(), r, p, offset, now)
		return
	}
	old, was := r.plan, r.at(now)
	r.plan, r.offset = p, offset
	switch {
	case old.IsBucket():
		if !p.SameRate(old) {
			l.changeRate(r, old, now)
		}
	case old.Shape() != p.Shape():
		at := r.at(now)
		shift := at - was
		r.here.Adopt(old, p, shift, at)
		if r.alone != nil {
			r.alone.Adopt(l.capped(old), l.capped(p), shift, at)
		}
		r.askedAt, r.changedAt, r.heardAt = r.askedAt+shift, r.changedAt+shift, r.heardAt+shift
		if old.Period != p.Period || shift != 0 {
			r.window, r.ahead = p.WindowOf(at), now.ahead // by the periods of now
		}
	}
}

// changeRate has a bucket, which was one of another plan, drain at the rate of its own from its latest decision on.
func (l *Ledger) changeRate(r *record, old *quota.Plan, now moment) {
	at := r.at(now)
	last := r.lastDecision(at)
	if g := r.region; g != nil {
		g.level -= old.UnitsIn(last-g.at, max(0, g.level))
		g.at = max(last, g.at)
	}
	if r.here.ChangeRate(old, r.plan, last, at) {
		r.emptyAt = last + r.here.Decide(r.plan, last, 0).ResetAfter.Microseconds()
	}
	// What did not drain while the bucket was empty stays the same in units.
	wasted := func(micros int64) int64 { return r.plan.TimeFor(old.UnitsIn(micros, headgate.MaxCount)) }
	r.waste = wasted(r.waste)
	for i := range r.seen {
		s := &r.seen[i]
		s.waste, s.level = wasted(s.waste), wasted(s.level)
	}
	if r.alone != nil {
		r.alone.ChangeRate(l.capped(old), l.capped(r.plan), last, at)
	}
}

// under returns what a record would be under another plan, and leaves it as it is.
func (l *Ledger) under(r *record, p *quota.Plan, offset int64, now moment) *record {
	if cur := r.current(); cur != r {
		return l.asReplaced(cur, r.key, p, offset, now)
	}
	other := r.clone()
	l.arrive(other, p, offset, now)
	return other
}
