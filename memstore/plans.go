package memstore

import (
	"math/rand/v2"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan is a limit with the data that this store derives from it for its decisions.
type plan struct {
	algorithm.Plan
	layout  // the layout of its entries, if compact
	limit   headgate.Limit
	kind    algorithm.Kind
	compact bool // its state fits a state word
	pooled  bool // it is from planPool, and returned after one decision
}

func (s *Store) newPlan(limit headgate.Limit) (*plan, error) {
	p := &plan{}
	if err := s.setPlan(p, limit); err != nil {
		return nil, err
	}
	return p, nil
}

func (s *Store) setPlan(p *plan, limit headgate.Limit) error {
	if c := s.customOf(limit.Algorithm); c != nil {
		if err := p.SetCustom(limit, c); err != nil {
			return err
		}
	} else if err := p.Set(limit); err != nil {
		return err
	}
	p.limit, p.kind = limit, p.Kind()
	p.layout, p.compact = s.layouts.assign(&p.Plan)
	return nil
}

// customOf returns the custom algorithm with a number, or nil.
func (s *Store) customOf(a headgate.Algorithm) algorithm.Custom {
	if a < headgate.FirstCustom {
		return nil
	}
	return s.custom[a]
}

// general returns the check with an algorithm whose limits have the same fields as those of custom algorithms that the
// store has, so that it can be validated.
func (s *Store) general(c headgate.Check) headgate.Check {
	if s.customOf(c.Limit.Algorithm) != nil {
		c.Limit.Algorithm = headgate.TokenBucket
	}
	return c
}

// planPool has plans for limits that are not cached. If a million clients have a limit each, caching all of them would
// only evict the others.
var planPool = sync.Pool{New: func() any { return &plan{pooled: true} }}

// cacheOneIn is the inverse of the probability that a new limit replaces one in a full cache. Frequent limits get in.
const cacheOneIn = 256

// planUncached returns a plan for a limit that is not in the cache. It caches the plan if there is room, and at random
// if there is not. Call done after the decision.
func (s *Store) planUncached(limit headgate.Limit, room bool) (*plan, error) {
	if room || rand.Uint32()%cacheOneIn == 0 {
		p, err := s.newPlan(limit)
		if err == nil {
			s.plans.Put(&limit, p)
		}
		return p, err
	}
	p := planPool.Get().(*plan)
	if err := s.setPlan(p, limit); err != nil {
		planPool.Put(p)
		return nil, err
	}
	return p, nil
}

// done returns the plan to its pool, if it is from one. The plan must not be used after that.
func (p *plan) done() {
	if p.pooled {
		planPool.Put(p)
	}
}
