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
	// initialWords is the length of a new state, and growth by how many words a step may let it grow.
	initialWords, growth int
	pooled               bool // the plan is from planPool, and returned to it after one decision
}

func (s *Store) newPlan(limit headgate.Limit) (*plan, error) {
	p := &plan{}
	if err := s.setPlan(p, limit); err != nil {
		return nil, err
	}
	return p, nil
}

// setPlan makes p the plan of a limit.
func (s *Store) setPlan(p *plan, limit headgate.Limit) error {
	if c := s.customOf(limit.Algorithm); c != nil {
		if err := p.SetCustom(limit, c); err != nil {
			return err
		}
	} else if err := p.Set(limit); err != nil {
		return err
	}
	p.limit, p.kind = limit, p.Kind()
	p.initialWords, p.growth = p.Words(), p.Growth()
	p.layout, p.compact = s.layouts.assign(&p.Plan)
	return nil
}

// customOf returns the custom algorithm with a number, or nil if there is none.
func (s *Store) customOf(a headgate.Algorithm) algorithm.Custom {
	if a < headgate.FirstCustom {
		return nil
	}
	return s.custom[a]
}

// validatable returns a check that Check.Validate can validate: it replaces a custom algorithm of this store by one
// whose limits have the same fields.
func (s *Store) validatable(c headgate.Check) headgate.Check {
	if s.customOf(c.Limit.Algorithm) != nil {
		c.Limit.Algorithm = headgate.TokenBucket
	}
	return c
}

// planPool has plans for limits that are not cached. If each of a million clients has its own limit, caching every plan
// would only evict the others.
var planPool = sync.Pool{New: func() any { return &plan{pooled: true} }}

// cacheOneIn is the inverse of the probability that a new limit replaces one in a full cache. So a limit that is
// used often is cached at some time.
const cacheOneIn = 256

// planUncached returns a plan for a limit that is not in the cache. It caches the plan if the cache has room, and at
// random if not. Call putBack after the decision.
func (s *Store) planUncached(limit headgate.Limit, cacheHasRoom bool) (*plan, error) {
	if cacheHasRoom || rand.Uint32()%cacheOneIn == 0 {
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

// putBack returns the plan to planPool if it is pooled. The plan must not be used after that.
func (p *plan) putBack() {
	if p.pooled {
		planPool.Put(p)
	}
}
