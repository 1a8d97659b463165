package memstore

import (
	"sync"
	"sync/atomic"
)

// A budget is the memory limit of a store's tables and records. Each may use seven eighths of it, so that many keys
// of one kind leave room for the other.
type budget struct {
	limit           int64
	mu              sync.Mutex // held to reserve bytes, not to release them
	tables, records atomic.Int64
}

func (b *budget) used() int64 { return b.tables.Load() + b.records.Load() }

// reserve adds bytes to part, which is tables or records, if both limits allow that. It reports whether they do.
func (b *budget) reserve(part *atomic.Int64, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if part.Load()+bytes > b.limit/8*7 || b.used()+bytes > b.limit {
		return false
	}
	part.Add(bytes)
	return true
}
