package memstore

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
}

// Stats returns the figures as they are now. It visits every segment; call it at the pace of a scrape.
func (s *Store) Stats() Stats {
	stats := Stats{
		Bytes: s.budget.used(), MaxBytes: s.budget.most,
		Evictions: s.evictions.Load(), Refusals: s.refusals.Load(),
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
