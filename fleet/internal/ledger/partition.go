package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// Under headgate.PartitionShare, while some nodes are out of reach, the nodes that hear each other use only their share of a limit: a
// second counter, under that share, has to allow what the first does. The first goes on as in any cut: when all nodes hear each
// other again they compare it, and the second is dropped.

// A side is what the nodes on this side of a cut consumed, under their share of the limit.
type side struct {
	plan *quota.Plan
	quota.Counter
}

// setSide gives a record the side that a check goes by, or none.
func (l *Ledger) setSide(r *record, a *ask, now moment) {
	at := r.at(now)
	switch {
	case a.share == nil:
		r.side = nil
	case r.side == nil:
		r.side = &side{plan: a.share}
		r.side.add(portion(r.level(now), a.live, a.known), at)
	case r.side.plan != a.share:
		old := r.side.plan
		r.side.plan = a.share
		if old.IsBucket() {
			r.side.ChangeRate(old, a.share, at, at)
		} else {
			r.side.Adopt(old, a.share, 0, at)
		}
	}
}

// add charges units.
func (s *side) add(units, at int64) {
	if units > 0 {
		s.Charge(s.plan, at, min(units, headgate.MaxCount))
	}
}

// tighten makes of a decision on n units what both counters allow.
func (s *side) tighten(d *headgate.Decision, n, at int64) {
	own := s.Decide(s.plan, at, n)
	d.Limit = min(d.Limit, own.Limit)
	tighten(d, &own)
}

// tighten makes of two decisions the tighter one.
func tighten(d, own *headgate.Decision) {
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
