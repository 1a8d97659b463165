// Package memory limits how much memory a store uses.
package memory

import (
	"sync"
	"sync/atomic"
)

// A Budget limits the memory of a store's tables and records. Each of the two may use seven eighths of the limit, so
// that one of them cannot take all the memory. It is safe for concurrent use.
type Budget struct {
	// Tables and Records are the reserved bytes of each. Subtract what is released.
	Tables, Records atomic.Int64

	mu    sync.Mutex // held to reserve bytes, not to release them
	limit atomic.Int64
}

// Limit returns the limit in bytes.
func (b *Budget) Limit() int64 { return b.limit.Load() }

// SetLimit sets the limit in bytes. A limit below the used bytes only prevents further reservations.
func (b *Budget) SetLimit(bytes int64) { b.limit.Store(bytes) }

// Used returns the reserved bytes of tables and records together.
func (b *Budget) Used() int64 { return b.Tables.Load() + b.Records.Load() }

// Reserve adds bytes to used, which is &b.Tables or &b.Records. It returns false and adds nothing if that would exceed
// the limit or seven eighths of it for used.
func (b *Budget) Reserve(used *atomic.Int64, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := b.Limit()
	if used.Load()+bytes > limit/8*7 || b.Used()+bytes > limit {
		return false
	}
	used.Add(bytes)
	return true
}
