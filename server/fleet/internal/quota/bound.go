package quota

import "github.com/headgate/headgate"

// A Bound is an additional counter with its own plan. A request must be allowed by the Bound and by the main counter.
type Bound struct {
	Counter
	Plan *Plan
}

// Add charges units regardless of the limit.
func (b *Bound) Add(units, at int64) {
	if units > 0 {
		b.Charge(b.Plan, at, min(units, headgate.MaxCount))
	}
}

// A PlanChange is a change of the plan of a Bound. Times are in µs by the clock of the new plan.
type PlanChange struct {
	Plan         *Plan
	LastDecision int64 // when a bucket starts to drain at the new rate; other algorithms do not use it
	ClockShift   int64 // how far the clock of the new plan is ahead of that of the old plan; 0 for buckets
	Now          int64
}

// ChangePlan makes the counter count under another plan.
func (b *Bound) ChangePlan(to PlanChange) {
	old, p := b.Plan, to.Plan
	b.Plan = p
	switch {
	case old == p || p.IsBucket() && p.SameRate(old):
	case p.IsBucket():
		b.ChangeRate(old, p, to.LastDecision, to.Now)
	default:
		b.Adopt(old, p, to.ClockShift, to.Now)
	}
}

// Tighten combines a decision on n units with the counter's own decision. Each figure becomes the stricter of both.
func (b *Bound) Tighten(d *headgate.Decision, n, at int64) {
	own := b.Decide(b.Plan, at, n)
	d.Limit = min(d.Limit, own.Limit)
	d.Remaining = min(d.Remaining, own.Remaining)
	d.ResetAfter = max(d.ResetAfter, own.ResetAfter)
	if own.Allowed {
		return
	}
	if d.Allowed {
		d.Receipt, d.Delay = headgate.Receipt{}, 0
	}
	d.Allowed = false
	d.RetryAfter = max(d.RetryAfter, own.RetryAfter)
}
