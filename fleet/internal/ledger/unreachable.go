package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// SetUnreachable tells the ledger that the other nodes cannot be heard of (away) or can again. Meanwhile decisions are Degraded,
// and go by the check's policy: Open by this node's own counter and the whole limit, Local by the check's Safe limit, or
// the limit divided by the live nodes; Closed denies. retry is when those denied may come again.
func (l *Ledger) SetUnreachable(away bool, retry time.Duration) {
	l.retryAt.Store(int64(l.options.Clock.Now() + retry))
	l.away.Store(away)
}

// GroupOf returns the group that a key is in; see [fleet.KeyGroups].
func GroupOf(k *Key) int { return int(k[0] % fleet.KeyGroups) }

// SetGroupsUnreachable says of which groups of keys the other nodes cannot be heard, one bit each. For them it is as if all were away.
func (l *Ledger) SetGroupsUnreachable(groups uint64, retry time.Duration) {
	l.retryAt.Store(int64(l.options.Clock.Now() + retry))
	l.cut.Store(groups)
}

// isAway reports whether the other nodes cannot be heard of the key of a check.
func (l *Ledger) isAway(c *headgate.Check) bool {
	if l.away.Load() {
		return true
	}
	cut := l.cut.Load()
	if cut == 0 {
		return false
	}
	key := l.hash(c.Key, 0) // the kind is not in the first byte
	return cut>>GroupOf(&key)&1 == 1
}

// terms returns what limit a check goes by when some nodes are out of reach. It is false if none: the check is denied.
func (l *Ledger) terms(a *ask, c *headgate.Check, limit *headgate.Limit, away bool) (degraded, counted bool) {
	*limit = c.Limit
	if away {
		degraded = true
		switch {
		case c.OnFailure == headgate.Closed:
			return true, false
		case c.OnFailure == headgate.Local && c.Safe != nil:
			*limit = *c.Safe
			return true, true
		case c.OnFailure == headgate.Local:
			live, _ := l.members()
			*limit = part(c.Limit, 1, live)
			return true, true
		}
	}
	if c.Partition == headgate.PartitionShare {
		if live, known := l.members(); live < known {
			a.live, a.known = live, known
		}
	}
	return degraded, true
}

// shut denies a check because nodes are away.
func (l *Ledger) shut(c *headgate.Check, now moment) headgate.Decision {
	d := headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
	if c.Cost > d.Limit {
		d.RetryAfter = headgate.Never
		return d
	}
	wait := max(time.Duration(l.retryAt.Load())-now.clock, time.Millisecond).Round(time.Microsecond)
	d.RetryAfter, d.ResetAfter = wait, wait
	return d
}

// members returns how many nodes are live, and how many are known.
func (l *Ledger) members() (live, known int64) {
	if l.options.Members == nil {
		return 1, 1
	}
	live = int64(max(1, l.options.Members.Live()))
	return live, max(live, int64(l.options.Members.Known()))
}

// part returns live of known parts of a limit, and no less than one unit.
func part(l headgate.Limit, live, known int64) headgate.Limit {
	l.Count = max(1, portion(l.Count, live, known))
	if l.Burst != 0 {
		if l.Burst = max(1, portion(l.Burst, live, known)); l.Validate() != nil {
			l.Burst = 0 // it would take too long to refill at this rate
		}
	}
	return l
}

// portion returns n × live / known for n up to headgate.MaxCount and counts of nodes.
func portion(n, live, known int64) int64 { return n/known*live + n%known*live/known }

// capped returns the plan by which this node counts what it consumes by itself.
func (l *Ledger) capped(p *quota.Plan) *quota.Plan {
	limit := part(p.Limit, int64(l.options.LocalCap), 100)
	made, err := l.plans.Get(&limit, quota.NewPlan)
	if err != nil {
		return p
	}
	return made
}
