package fleet

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// SetAway tells the ledger that the other nodes cannot be heard of (away) or can again. Meanwhile decisions are Degraded,
// and go by the check's policy: Open by this node's own counter and the whole limit, Local by the check's Safe limit, or
// the limit divided by the live nodes; Closed denies. retry is when those denied may come again.
func (l *Ledger) SetAway(away bool, retry time.Duration) {
	l.retryAt.Store(int64(l.options.Clock.Now() + retry))
	l.away.Store(away)
}

// Groups is how many parts keys are in of which each can be away for itself: those that are equal in their first byte, modulo
// this, are in the same.
const Groups = 64

func groupOf(k *Key) int { return int(k[0] % Groups) }

// setCut says of which groups of keys the other nodes cannot be heard, one bit each. For them it is as if all were away.
func (l *Ledger) setCut(groups uint64, retry time.Duration) {
	l.retryAt.Store(int64(l.options.Clock.Now() + retry))
	l.cut.Store(groups)
}

// isAway tells whether the other nodes cannot be heard of the key of a check.
func (l *Ledger) isAway(c *headgate.Check) bool {
	if l.away.Load() {
		return true
	}
	cut := l.cut.Load()
	if cut == 0 {
		return false
	}
	key := l.hash(c.Key, 0) // the kind is not in the first byte
	return cut>>groupOf(&key)&1 == 1
}

// terms returns what limit a check goes by when some nodes are out of reach. It is false if none: the check is denied.
func (l *Ledger) terms(a *ask, c *headgate.Check, limit *headgate.Limit, away bool, now moment) (degraded, counted bool) {
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
			live, _ := l.share.of(l.options.Members, now.clock)
			*limit = part(c.Limit, 1, live)
			return true, true
		}
	}
	if c.Partition == headgate.PartitionShare {
		if live, known := l.share.of(l.options.Members, now.clock); live < known {
			*limit = part(c.Limit, live, known)
			a.left, a.of = known-live, known
		}
	}
	return degraded, true
}

// leave counts the part of a limit that is left to nodes out of reach as drained by them: it is not owed when they are heard
// again.
func (a *ask) leave(r *record, now moment) {
	if at := r.at(now); a.of > 0 && r.plan.leaks() && r.emptyAt > at {
		r.waste += portion(max(0, at-r.askedAt), a.left, a.of-a.left)
	}
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

// A share remembers for a moment how many nodes there are.
type share struct {
	at     atomic.Int64 // by the clock; 0 if never
	counts atomic.Uint64
}

// shareFor is for how long that is remembered.
const shareFor = 100 * time.Millisecond

func (s *share) of(m Members, now time.Duration) (live, known int64) {
	if m == nil {
		return 1, 1
	}
	last := s.at.Load()
	if last == 0 || int64(now)-last >= int64(shareFor) {
		if s.at.CompareAndSwap(last, max(1, int64(now))) || last == 0 {
			live := max(1, m.Live())
			s.counts.Store(uint64(live)<<32 | uint64(max(live, m.Known())))
		}
	}
	counts := s.counts.Load()
	return max(1, int64(counts>>32)), max(1, int64(counts&(1<<32-1)))
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
func (l *Ledger) capped(p *plan) *plan {
	limit := part(p.limit, int64(l.options.LocalCap), 100)
	made, err := l.plans.Get(&limit, newPlan)
	if err != nil {
		return p
	}
	return made
}
