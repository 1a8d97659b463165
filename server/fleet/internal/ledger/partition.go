package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// Under headgate.PartitionShare, while some nodes are unreachable, the reachable ones use only their share of a limit:
// a second counter under that share has to allow each request as well. The first counter goes on as in any partition.
// When all nodes are reachable again, they compare it, and the second counter is dropped.

// A shareCounter counts units consumed on this side of a partition, under its share of the limit.
type shareCounter struct {
	plan *quota.Plan
	quota.Counter
}

// setShare sets or drops the share counter of a record, as the request needs it.
func (l *Ledger) setShare(r *record, q *request, now moment) {
	at := r.at(now)
	switch {
	case q.sharePlan == nil:
		r.optional.share = nil
	case r.optional.share == nil:
		r.optional.share = &shareCounter{plan: q.sharePlan}
		r.optional.share.add(quota.Scale(r.level(now), q.live, q.known), at)
	case r.optional.share.plan != q.sharePlan:
		old := r.optional.share.plan
		r.optional.share.plan = q.sharePlan
		if old.IsBucket() {
			r.optional.share.ChangeRate(old, q.sharePlan, at, at)
		} else {
			r.optional.share.Adopt(old, q.sharePlan, 0, at)
		}
	}
}

// add charges units.
func (s *shareCounter) add(units, at int64) {
	if units > 0 {
		s.Charge(s.plan, at, min(units, headgate.MaxCount))
	}
}

// tighten changes a decision on n units to the tighter one of both counters.
func (s *shareCounter) tighten(d *headgate.Decision, n, at int64) {
	own := s.Decide(s.plan, at, n)
	d.Limit = min(d.Limit, own.Limit)
	tighten(d, &own)
}

// tighten changes d to the tighter one of two decisions.
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
