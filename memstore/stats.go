package memstore

import (
	"sync/atomic"
	"time"
)

// Stats are a store's figures.
type Stats struct {
	// Keys is how many keys are remembered, dead ones that were not swept yet among them.
	Keys int64
	// Bytes is what the counters take, and MaxBytes what they may.
	Bytes, MaxBytes int64
	// Evictions is how many keys were forgotten before their time because memory was full.
	Evictions int64
	// Refusals is how many new keys were refused because memory was full.
	Refusals int64
	// Steps is how often a part of the table was rehashed or swept, holding up those who want to add a key to its shard, and
	// LongSteps how many of these times took longer than LongStep, for whatever reason: the machine's own breaks count too.
	Steps, LongSteps int64
}

// LongStep is from when on a step of rehashing or sweeping is long. What a step has to do takes a fraction of that.
const LongStep = 100 * time.Microsecond

// A stopwatch times the steps of rehashing and sweeping.
type stopwatch struct{ steps, long atomic.Int64 }

// stop ends a step that began at start.
func (w *stopwatch) stop(start time.Time) {
	w.steps.Add(1)
	if time.Since(start) > LongStep {
		w.long.Add(1)
	}
}

// Stats returns the figures as they are now. It visits every segment; call it at the pace of a scrape.
func (s *Store) Stats() Stats {
	stats := Stats{
		Bytes: s.budget.used(), MaxBytes: s.budget.most,
		Evictions: s.evictions.Load(), Refusals: s.refusals.Load(),
		Steps: s.stopwatch.steps.Load(), LongSteps: s.stopwatch.long.Load(),
	}
	for n := range s.shards {
		sh := &s.shards[n]
		sh.mu.Lock()
		stats.Keys += int64(len(sh.wide.index))
		if d := s.dirs[n].Load(); d != nil {
			var last *segment
			for _, g := range d.segments {
				if g != last {
					stats.Keys += int64(g.used)
				}
				last = g
			}
		}
		sh.mu.Unlock()
	}
	return stats
}
