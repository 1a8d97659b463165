package memstore

import (
	"sync"
	"sync/atomic"
)

// A budget is the memory limit of a store's tables and records. Each may use seven eighths of it, so that a flood of
// keys of one kind leaves room for the other.
type budget struct {
	most            int64
	mu              sync.Mutex // held to reserve, not to give back
	tables, records atomic.Int64
}

func (b *budget) used() int64 { return b.tables.Load() + b.records.Load() }

// reserve adds bytes to part, which is one of the budget's, if they are within the limits, and reports whether they
// are.
func (b *budget) reserve(part *atomic.Int64, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if part.Load()+bytes > b.most/8*7 || b.used()+bytes > b.most {
		return false
	}
	part.Add(bytes)
	return true
}
