package algorithm

import (
	"sync/atomic"

	"github.com/headgate/headgate"
)

// A Cache remembers what a store has made of the limits it was asked for lately, so that a Check with a Limit costs no
// more than a look. Limits that share a place have four each, and displace each other when there are more. The zero
// Cache is empty. It is safe for concurrent use.
type Cache[T any] [128][4]atomic.Pointer[made[T]]

type made[T any] struct {
	limit headgate.Limit
	value T
}

// Get returns what was made of the limit, or what build makes of it now.
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

// Find returns what was made of the limit, if it is remembered, and otherwise whether Put would displace nothing.
func (c *Cache[T]) Find(limit *headgate.Limit) (value T, found, room bool) {
	places := c.places(limit)
	for i := range places {
		p := places[i].Load()
		if p == nil {
			return value, false, true
		}
		if p.limit == *limit {
			return p.value, true, false
		}
	}
	return value, false, false
}

// Put remembers what was made of a limit, and forgets what was longest in its place.
func (c *Cache[T]) Put(limit *headgate.Limit, value T) {
	places := c.places(limit)
	for i := len(places) - 1; i > 0; i-- {
		places[i].Store(places[i-1].Load())
	}
	places[0].Store(&made[T]{*limit, value})
}

func (c *Cache[T]) places(limit *headgate.Limit) *[4]atomic.Pointer[made[T]] {
	h := uint64(limit.Count)*0x9E3779B97F4A7C15 ^ uint64(limit.Period)*0xC2B2AE3D27D4EB4F ^
		uint64(limit.Burst)*0x165667B19E3779F9 ^ uint64(limit.Algorithm)<<32 ^ uint64(limit.TTL) ^ uint64(limit.Buckets)<<40
	if limit.Staggered {
		h = ^h
	}
	return &c[(h^h>>29)*0x9E3779B97F4A7C15>>57]
}
