package memstore

import (
	"math/rand/v2"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan is a limit made ready for this store.
type plan struct {
	algorithm.Plan
	layout  // of its entries, if compact
	limit   headgate.Limit
	kind    algorithm.Kind
	compact bool // its state fits a state word
	loan    bool // it is for one decision, and then for another
}

func (s *Store) newPlan(limit headgate.Limit) (*plan, error) {
	made := &plan{}
	if err := s.setPlan(made, limit); err != nil {
		return nil, err
	}
	return made, nil
}

func (s *Store) setPlan(p *plan, limit headgate.Limit) error {
	if err := p.Set(limit); err != nil {
		return err
	}
	p.limit, p.kind = limit, p.Kind()
	p.layout, p.compact = s.layouts.of(&p.Plan)
	return nil
}

// loans are plans for limits that are not remembered: where a million clients have a limit each, remembering would but push
// out others.
var loans = sync.Pool{New: func() any { return &plan{loan: true} }}

// admitted is of how many limits that would push out others one is remembered, by chance: those that are asked for often.
const admitted = 256

// unplanned returns a plan for a limit that is not remembered. Give it to done after the decision.
func (s *Store) unplanned(limit headgate.Limit, room bool) (*plan, error) {
	if room || rand.Uint32()%admitted == 0 {
		p, err := s.newPlan(limit)
		if err == nil {
			s.plans.Put(&limit, p)
		}
		return p, err
	}
	p := loans.Get().(*plan)
	if err := s.setPlan(p, limit); err != nil {
		loans.Put(p)
		return nil, err
	}
	return p, nil
}

// done takes a plan back.
func (p *plan) done() {
	if p.loan {
		loans.Put(p)
	}
}
