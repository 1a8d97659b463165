package fleet

import (
	"sync"
	"sync/atomic"
	"time"
)

// LedgerStats are a ledger's figures.
type LedgerStats struct {
	// Keys is how many keys are remembered, and MaxKeys how many can be.
	Keys, MaxKeys int
	// Waiting is how many of them have something to tell.
	Waiting int
	// Peers is how many nodes, and incarnations of nodes, were heard of.
	Peers int
	// Absorbed is how many units others consumed, as far as was heard.
	Absorbed int64
	// Over estimates how many units all nodes together let pass beyond limits before they knew of each other: the deepest
	// debt that news caused, of every key, each time that it had been in none. OverMax is the most of one key. Debt is
	// repaid, so this is what passed too early rather than too much.
	Over, OverMax int64
	// Lag is how old news is when it is absorbed, on average of late, and LagMax the most within the last minute or two. Where
	// tallies come without their age it is compared with the fastest.
	Lag, LagMax time.Duration
	// Levelled is how many units were charged because other nodes were above this one for long, as it had missed something.
	Levelled int64
	// Refused is how many tallies could not be true.
	Refused int64
	// Evicted is how many keys were forgotten before their time, Full how many new ones were refused, and Unheard how many
	// tallies were not heeded, because there was no room.
	Evicted, Full, Unheard int64
	// Lookups is how many keys were learned from others: new ones, and those that were left alone for a while. LookupWaits is how
	// many decisions waited for that. LookupsDropped is how many did not, or not to the end, and went by this node's own counter:
	// too many were waiting, or there was no answer in time.
	Lookups, LookupWaits, LookupsDropped int64
	// Crowded is how often a record knew of too many peers and forgot one.
	Crowded int64
}

type ledgerCounters struct {
	absorbed, overTotal, overMax    atomic.Int64
	refused, evicted, full, unheard atomic.Int64
	levelled                        atomic.Int64
	crowded, reported, turns        atomic.Int64

	mu       sync.Mutex
	lag      time.Duration
	most     [2]time.Duration // of this minute and the one before
	mostFrom time.Duration
}

// over counts a debt that news has caused, and by how much it is deeper than it was.
func (c *ledgerCounters) over(debt, more int64) {
	c.overTotal.Add(more)
	for {
		most := c.overMax.Load()
		if debt <= most || c.overMax.CompareAndSwap(most, debt) {
			return
		}
	}
}

// heard counts news of an age.
func (c *ledgerCounters) heard(age, now time.Duration) {
	const weight = 64
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag += (age - c.lag) / weight
	if now-c.mostFrom >= time.Minute {
		c.most = [2]time.Duration{0, c.most[0]}
		c.mostFrom = now
	}
	c.most[0] = max(c.most[0], age)
}

// Stats returns the figures as they are now.
func (l *Ledger) Stats() LedgerStats {
	c := &l.counters
	s := LedgerStats{
		MaxKeys: l.options.MaxKeys, Peers: l.peers.count(),
		Absorbed: c.absorbed.Load(), Over: c.overTotal.Load(), OverMax: c.overMax.Load(),
		Refused: c.refused.Load(), Evicted: c.evicted.Load(), Full: c.full.Load(), Unheard: c.unheard.Load(),
		Crowded: c.crowded.Load(), Levelled: c.levelled.Load(),
		Lookups: l.learning.lookups.Load(), LookupWaits: l.learning.waits.Load(), LookupsDropped: l.learning.dropped.Load(),
	}
	c.mu.Lock()
	s.Lag, s.LagMax = c.lag, max(c.most[0], c.most[1])
	c.mu.Unlock()
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		s.Keys += len(sh.list)
		for _, r := range sh.list {
			if r.class != none {
				s.Waiting++
			}
		}
		sh.mu.Unlock()
	}
	return s
}
