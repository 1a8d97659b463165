package algorithm

import (
	"sync/atomic"

	"github.com/headgate/headgate"
)

// A Cache holds values that a store has derived from limits, such as plans. It has 128 sets of four entries. The hash
// of a limit selects its set, and a full set drops its oldest entry. The zero Cache is empty. A Cache is safe for
// concurrent use.
type Cache[T any] [128]cacheSet[T]

type cacheSet[T any] [4]atomic.Pointer[cacheEntry[T]]

type cacheEntry[T any] struct {
	limit headgate.Limit
	value T
}

// Get returns the cached value of the limit, or builds and caches it.
func (c *Cache[T]) Get(limit *headgate.Limit, build func(headgate.Limit) (T, error)) (T, error) {
	value, found, _ := c.Find(limit)
	if found {
		return value, nil
	}
	value, err := build(*limit)
	if err == nil {
		c.Put(limit, value)
	}
	return value, err
}

// Find returns the cached value of the limit. If there is none, room reports whether the limit's set has a free entry.
func (c *Cache[T]) Find(limit *headgate.Limit) (value T, found, room bool) {
	set := c.set(limit)
	for i := range set {
		entry := set[i].Load()
		if entry == nil {
			return value, false, true
		}
		if entry.limit == *limit {
			return entry.value, true, false
		}
	}
	return value, false, false
}

// Put adds the value of a limit. If the limit's set is full, Put drops the oldest entry.
func (c *Cache[T]) Put(limit *headgate.Limit, value T) {
	set := c.set(limit)
	for i := len(set) - 1; i > 0; i-- {
		set[i].Store(set[i-1].Load())
	}
	set[0].Store(&cacheEntry[T]{*limit, value})
}

// set returns the set of a limit. It multiplies by odd constants to spread small numbers over 64 bits. The upper 7 bits
// of the hash select one of 128 sets.
func (c *Cache[T]) set(limit *headgate.Limit) *cacheSet[T] {
	h := uint64(limit.Count)*0x9E3779B97F4A7C15 ^ uint64(limit.Period)*0xC2B2AE3D27D4EB4F ^
		uint64(limit.Burst)*0x165667B19E3779F9 ^ uint64(limit.Algorithm)<<32 ^ uint64(limit.TTL) ^ uint64(limit.Buckets)<<40
	if limit.Staggered {
		h = ^h
	}
	return &c[(h^h>>29)*0x9E3779B97F4A7C15>>57]
}
