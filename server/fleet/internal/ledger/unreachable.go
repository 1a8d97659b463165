package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// SetUnreachable tells the ledger whether its peers are unreachable. While they are, decisions are Degraded and follow
// the policy in the check's OnFailure. Open allows the whole limit by this node's counter. Local uses the check's Safe
// limit or, if there is none, the limit divided by the number of known nodes. Closed denies, and callers are told to
// retry after the time retry.
func (l *Ledger) SetUnreachable(unreachable bool, retry time.Duration) {
	l.retryAt.Store(int64(l.clock.Elapsed() + retry))
	l.unreachable.Store(unreachable)
}

// GroupOf returns the group that a key is in; see [fleet.KeyGroups].
func GroupOf(k *Key) int { return int(k[0] % fleet.KeyGroups) }

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
	key := l.hash(c.Key, 0) // the kind does not matter: only the first byte of the hash is used
	return groups>>GroupOf(&key)&1 == 1
}

// limitWhenUnreachable sets the limit for a check while some nodes are unreachable. unreachable is set if all peers of
// this node are. counted is false if the check must be denied.
func (l *Ledger) limitWhenUnreachable(
	req *request, c *headgate.Check, limit *headgate.Limit, unreachable bool,
) (degraded, counted bool) {
	*limit = c.Limit
	if unreachable {
		degraded = true
		switch {
		case c.OnFailure == headgate.Closed:
			return true, false
		case c.OnFailure == headgate.Local && c.Safe != nil:
			*limit = *c.Safe
			return true, true
		case c.OnFailure == headgate.Local:
			// The share bounds only what this node admits. Its counter continues under the whole limit, as on other nodes. Under
			// the share it would drain too slowly, and be in debt for drained units when peers are reachable again.
			req.live = 1
			req.known, _ = l.members()
			return true, true
		}
	}
	if c.Partition == headgate.PartitionShare {
		if live, known := l.members(); live < known {
			req.live, req.known = live, known
		}
	}
	return degraded, true
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

// localPlan returns the plan under which this node's own consumption is bounded; see LocalCap.
func (l *Ledger) localPlan(p *quota.Plan) *quota.Plan {
	limit := quota.Share(p.Limit, int64(l.options.LocalCap), 100)
	plan, err := l.plans.Get(&limit, quota.NewPlan)
	if err != nil {
		return p
	}
	return plan
}
