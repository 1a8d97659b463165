package memstore

import (
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan is a limit made ready for this store.
type plan struct {
	algorithm.Plan
	limit   headgate.Limit
	kind    algorithm.Kind
	compact bool  // its state fits a state word
	life    uint8 // the life byte of its entries, if compact
}

func newPlan(limit headgate.Limit) (*plan, error) {
	p, err := algorithm.NewPlan(limit)
	if err != nil {
		return nil, err
	}
	made := &plan{Plan: *p, limit: limit, kind: p.Kind()}
	made.life, made.compact = lifeOf(p)
	return made, nil
}

// plans remembers the plans of limits asked for lately, so that a Check with a Limit costs no more than a look. Limits
// that share a place have four each, and displace each other when there are more.
type plans [128][4]atomic.Pointer[plan]

func (c *plans) get(limit *headgate.Limit) (*plan, error) {
	h := uint64(limit.Count)*0x9E3779B97F4A7C15 ^ uint64(limit.Period)*0xC2B2AE3D27D4EB4F ^
		uint64(limit.Burst)*0x165667B19E3779F9 ^ uint64(limit.Algorithm)<<32 ^ uint64(limit.TTL) ^ uint64(limit.Buckets)<<40
	if limit.Staggered {
		h = ^h
	}
	places := &c[(h^h>>29)*0x9E3779B97F4A7C15>>57]
	for i := range places {
		if p := places[i].Load(); p != nil && p.limit == *limit {
			return p, nil
		}
	}
	p, err := newPlan(*limit)
	if err != nil {
		return nil, err
	}
	for i := len(places) - 1; i > 0; i-- {
		places[i].Store(places[i-1].Load())
	}
	places[0].Store(p)
	return p, nil
}
