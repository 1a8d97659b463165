package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// SetUnreachable sets whether the peers are unreachable. While they are, decisions are Degraded and follow the policy
// in the check's OnFailure. Open applies the whole limit to the units that this node has counted. Local applies the
// check's Safe limit or, if there is none, the limit divided by the number of live nodes. Closed denies, with a
// RetryAfter of retry.
func (l *Ledger) SetUnreachable(unreachable bool, retry time.Duration) {
	l.unreachable.SetAll(unreachable, l.clock.Elapsed()+retry)
}

// SetGroupsUnreachable is SetUnreachable for some key groups, one bit each.
func (l *Ledger) SetGroupsUnreachable(groups uint64, retry time.Duration) {
	l.unreachable.SetGroups(groups, l.clock.Elapsed()+retry)
}

// isUnreachable reports whether the peers are unreachable for the key of a check.
func (l *Ledger) isUnreachable(c *headgate.Check) bool {
	groups := l.unreachable.Groups()
	if all := l.unreachable.All(); all || groups == 0 {
		return all
	}
	key := l.hash(c.Key, 0) // any kind: it changes only the last byte of the hash, and GroupOf uses the first
	return groups>>tally.GroupOf(&key)&1 == 1
}

// localPlan returns the plan that limits this node's own consumption; see LedgerOptions.LocalCap.
func (l *Ledger) localPlan(p *quota.Plan) *quota.Plan {
	limit := quota.Share(p.Limit, int64(l.options.LocalCap), 100)
	plan, err := l.plans.Get(&limit, quota.NewPlan)
	if err != nil {
		return p // not reached: a share of a valid limit is valid
	}
	return plan
}
