package memstore

import (
	"sync/atomic"
	"time"
)

// Stats are the figures of a store at one time.
type Stats struct {
	// Keys is the number of keys, including dead ones that were not swept yet.
	Keys int64
	// Bytes is the memory of the counters, and MaxBytes its limit.
	Bytes, MaxBytes int64
	// Evictions is how many live keys were removed because memory was full.
	Evictions int64
	// Refusals is how many new keys were refused because memory was full.
	Refusals int64
	// Steps is how often a segment was rehashed or swept. A step delays callers that add a key to the same shard.
	// LongSteps is the number of steps that took longer than LongStep, including time in which the process did not run.
	Steps, LongSteps int64
}

// LongStep is the duration above which a step of rehashing or sweeping counts as long. Most steps take a fraction of
// it.
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

// Stats returns the current figures. It visits every segment, so do not call it more often than metrics are scraped.
func (s *Store) Stats() Stats {
	stats := Stats{
		Bytes: s.budget.Used(), MaxBytes: s.budget.Limit(),
		Evictions: s.evictions.Load(), Refusals: s.refusals.Load(),
		Steps: s.stopwatch.steps.Load(), LongSteps: s.stopwatch.long.Load(),
	}
	for n := range s.shards {
		sh := &s.shards[n]
		sh.mu.Lock()
		stats.Keys += int64(sh.records.index.Len())
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
