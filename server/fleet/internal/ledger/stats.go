package ledger

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// counters has figures for Stats. changesCalls and reportedAt are not figures: they are state of Changes and Refuse.
type counters struct {
	applied                                atomic.Int64
	refused, evicted, full, ignored        atomic.Int64
	levelled, lookups                      atomic.Int64
	peersDropped, reportedAt, changesCalls atomic.Int64

	mu          sync.Mutex
	over        int64
	overMax     int64 // of a single key
	lag         time.Duration
	lagMax      [2]time.Duration // of this minute and the one before
	lagMaxSince time.Duration
}

// addOver counts over-admission: updates have increased the debt of a key to debt units, by increase.
func (c *counters) addOver(debt, increase int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over += increase
	c.overMax = max(c.overMax, debt)
}

// An ageSum sums up the ages of updates.
type ageSum struct {
	updates      int
	sum, highest time.Duration
}

func (s *ageSum) add(age time.Duration) {
	s.updates++
	s.sum, s.highest = s.sum+age, max(s.highest, age)
}

// addLag adds the ages of updates to the average and the maximum. now is the uptime.
func (c *counters) addLag(ages *ageSum, now time.Duration) {
	const weight = 64
	if ages.updates == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	average := ages.sum / time.Duration(ages.updates)
	c.lag += (average - c.lag) * time.Duration(min(ages.updates, weight)) / weight
	if now-c.lagMaxSince >= time.Minute {
		c.lagMax, c.lagMaxSince = [2]time.Duration{0, c.lagMax[0]}, now
	}
	c.lagMax[0] = max(c.lagMax[0], ages.highest)
}

// Stats returns the current figures of the ledger.
func (l *Ledger) Stats() fleet.LedgerStats {
	c := &l.counters
	s := fleet.LedgerStats{
		MaxKeys: l.options.MaxKeys, Peers: l.peers.Count(), Applied: c.applied.Load(),
		Refused: c.refused.Load(), Evicted: c.evicted.Load(), Full: c.full.Load(), Ignored: c.ignored.Load(),
		PeersDropped: c.peersDropped.Load(), Levelled: c.levelled.Load(),
		Lookups: c.lookups.Load(), LookupWaits: l.lookups.Waits(), LookupsDropped: l.lookups.Dropped(),
	}
	c.mu.Lock()
	s.Over, s.OverMax = c.over, c.overMax
	s.Lag, s.LagMax = c.lag, max(c.lagMax[0], c.lagMax[1])
	c.mu.Unlock()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		s.Keys += len(sh.list)
		for _, r := range sh.list {
			if r.status.class != none {
				s.Waiting++
			}
		}
		sh.mu.Unlock()
	}
	return s
}

// CountOver counts over-admission in a region's store: other regions have increased the debt of a key to debt units, by
// increase.
func (l *Ledger) CountOver(debt, increase int64) { l.counters.addOver(debt, increase) }

// CountLag counts an update of another region. age is the update's age when it was received.
func (l *Ledger) CountLag(age time.Duration) {
	l.counters.addLag(&ageSum{updates: 1, sum: age, highest: age}, l.clock.Elapsed())
}

// CountApplied counts units that another region consumed.
func (l *Ledger) CountApplied(units int64) { l.counters.applied.Add(units) }
