package memstore

import (
	"sync"
	"sync/atomic"
)

// A budget limits the memory of a store's tables and records. Each of the two may use seven eighths of the limit, so
// that one of them cannot take all the memory.
type budget struct {
	limit           int64
	mu              sync.Mutex // held to reserve bytes, not to release them
	tables, records atomic.Int64
}

func (b *budget) used() int64 { return b.tables.Load() + b.records.Load() }

// reserve adds bytes to part, which is tables or records. It returns false and adds nothing if that would exceed the
// limit or seven eighths of it for part.
func (b *budget) reserve(part *atomic.Int64, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if part.Load()+bytes > b.limit/8*7 || b.used()+bytes > b.limit {
		return false
	}
	part.Add(bytes)
	return true
}
