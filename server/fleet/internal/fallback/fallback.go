package fallback

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
)

// A State records for which keys the peers are unreachable. In the zero State, all peers are reachable. It is safe for
// concurrent use.
type State struct {
	all     atomic.Bool   // unreachable for all keys
	groups  atomic.Uint64 // unreachable for these groups of keys, one bit each
	retryAt atomic.Int64  // uptime in ns at which denied callers may retry
}

// SetAll sets whether peers are unreachable for all keys. Callers that are denied because of this may retry at the uptime
// retryAt.
func (s *State) SetAll(unreachable bool, retryAt time.Duration) {
	s.retryAt.Store(int64(retryAt))
	s.all.Store(unreachable)
}

// SetGroups sets the groups of keys for which peers are unreachable, one bit each. For retryAt, see SetAll.
func (s *State) SetGroups(groups uint64, retryAt time.Duration) {
	s.retryAt.Store(int64(retryAt))
	s.groups.Store(groups)
}

// All reports whether peers are unreachable for all keys.
func (s *State) All() bool { return s.all.Load() }

// Groups returns the groups of keys for which peers are unreachable, one bit each.
func (s *State) Groups() uint64 { return s.groups.Load() }

// Deny returns the decision on a check that is denied because peers are unreachable.
func (s *State) Deny(c *headgate.Check, uptime time.Duration) headgate.Decision {
	d := headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
	if c.Cost > d.Limit {
		d.RetryAfter = headgate.Never
		return d
	}
	wait := max(time.Duration(s.retryAt.Load())-uptime, time.Millisecond).Round(time.Microsecond)
	d.RetryAfter, d.ResetAfter = wait, wait
	return d
}

// An Allowance is the share of a limit that a check may use.
type Allowance struct {
	Degraded bool // peers are unreachable for the key
	Denied   bool // the policy of the check denies it
	// The check may use the share Part/Whole of the limit. Both are 0 for the whole limit.
	Part, Whole int64
}

// Allow returns the allowance of a check, and sets *limit to the limit that applies to it. unreachable means that this
// node can reach no peer for the key. m may be nil if there are no other nodes.
func Allow(c *headgate.Check, limit *headgate.Limit, unreachable bool, m fleet.Members) (a Allowance) {
	*limit = c.Limit
	if unreachable {
		a.Degraded = true
		switch c.OnFailure {
		case headgate.Closed:
			a.Denied = true
			return a
		case headgate.Local:
			if c.Safe != nil {
				*limit = *c.Safe
				return a
			}
			// This node admits its share of the limit. The key's counter still drains at the rate of the whole limit, as on
			// other nodes. Otherwise, when peers are reachable again, this node's counter would still have units that have
			// drained on the other nodes.
			a.Part = 1
			a.Whole, _ = count(m)
			return a
		case headgate.Open: // the whole limit, unless c.Partition asks for a share
		}
	}
	if c.Partition == headgate.PartitionShare {
		if live, known := count(m); live < known {
			a.Part, a.Whole = live, known
		}
	}
	return a
}

// count returns the numbers of live and known nodes. Both are at least 1.
func count(m fleet.Members) (live, known int64) {
	if m == nil {
		return 1, 1
	}
	live = int64(max(1, m.Live()))
	return live, max(live, int64(m.Known()))
}
