package memstore

import "sync/atomic"

// A budget is the memory limit of a store: what its tables and its records take. Either may have seven eighths of it, so
// that a flood of keys of one sort leaves room for the other.
type budget struct {
	most            int64
	tables, records atomic.Int64
}

func (b *budget) used() int64 { return b.tables.Load() + b.records.Load() }

// reserve adds bytes to part, which is one of the budget's, and tells whether they are within the limits; if not, it adds
// nothing.
func (b *budget) reserve(part *atomic.Int64, bytes int64) bool {
	if part.Add(bytes) > b.most/8*7 || b.used() > b.most {
		part.Add(-bytes)
		return false
	}
	return true
}
