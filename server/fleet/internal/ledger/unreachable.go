package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// SetUnreachable tells the ledger whether its peers are unreachable. While they are, decisions are Degraded and follow
// the policy in the check's OnFailure. Open applies the whole limit to the units that this node has counted. Local uses
// the check's Safe limit or, if there is none, the limit divided by the number of known nodes. Closed denies, and
// callers are told to retry after the time retry.
func (l *Ledger) SetUnreachable(unreachable bool, retry time.Duration) {
	l.retryAt.Store(int64(l.clock.Elapsed() + retry))
	l.unreachable.Store(unreachable)
}

// SetGroupsUnreachable is SetUnreachable for some key groups, one bit each.
func (l *Ledger) SetGroupsUnreachable(groups uint64, retry time.Duration) {
	l.retryAt.Store(int64(l.clock.Elapsed() + retry))
	l.unreachableGroups.Store(groups)
}

// isUnreachable reports whether the peers are unreachable for the key of a check.
func (l *Ledger) isUnreachable(c *headgate.Check) bool {
	if l.unreachable.Load() {
		return true
	}
	groups := l.unreachableGroups.Load()
	if groups == 0 {
		return false
	}
	key := l.hash(c.Key, 0) // any kind: it only changes the last byte of the hash, and GroupOf uses the first one
	return groups>>tally.GroupOf(&key)&1 == 1
}

// limitWhenUnreachable sets limit to the limit that applies to a check while some nodes are unreachable. allUnreachable
// means that this node can reach no peer for the key. denied means that the policy of the check denies it.
func (l *Ledger) limitWhenUnreachable(
	req *request, c *headgate.Check, limit *headgate.Limit, allUnreachable bool,
) (degraded, denied bool) {
	*limit = c.Limit
	if allUnreachable {
		degraded = true
		switch c.OnFailure {
		case headgate.Closed:
			return true, true
		case headgate.Local:
			if c.Safe != nil {
				*limit = *c.Safe
				return true, false
			}
			// This node admits its share of the limit, but the key's own counter keeps draining at the rate of the whole limit,
			// as on other nodes. At the rate of the share, the counter would still hold units that have drained elsewhere when
			// the peers are reachable again.
			req.live = 1
			req.known, _ = l.members()
			return true, false
		case headgate.Open: // the whole limit, unless c.Partition asks for a share
		}
	}
	if c.Partition == headgate.PartitionShare {
		if live, known := l.members(); live < known {
			req.live, req.known = live, known
		}
	}
	return degraded, false
}

// denyUnreachable denies a check because peers are unreachable.
func (l *Ledger) denyUnreachable(c *headgate.Check, now moment) headgate.Decision {
	d := headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
	if c.Cost > d.Limit {
		d.RetryAfter = headgate.Never
		return d
	}
	wait := max(time.Duration(l.retryAt.Load())-now.uptime, time.Millisecond).Round(time.Microsecond)
	d.RetryAfter, d.ResetAfter = wait, wait
	return d
}

// members returns the numbers of live and known nodes. Both are at least 1.
func (l *Ledger) members() (live, known int64) {
	if l.options.Members == nil {
		return 1, 1
	}
	live = int64(max(1, l.options.Members.Live()))
	return live, max(live, int64(l.options.Members.Known()))
}

// localPlan returns the plan that bounds this node's own consumption; see LedgerOptions.LocalCap.
func (l *Ledger) localPlan(p *quota.Plan) *quota.Plan {
	limit := quota.Share(p.Limit, int64(l.options.LocalCap), 100)
	plan, err := l.plans.Get(&limit, quota.NewPlan)
	if err != nil {
		return p // not reached: a share of a valid limit is valid
	}
	return plan
}
