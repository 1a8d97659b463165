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
	limit   headgate.Limit
	kind    algorithm.Kind
	compact bool  // its state fits a state word
	life    uint8 // the life byte of its entries, if compact
	loan    bool  // it is for one decision, and then for another
}

func newPlan(limit headgate.Limit) (*plan, error) {
	made := &plan{}
	if err := made.set(limit); err != nil {
		return nil, err
	}
	return made, nil
}

func (p *plan) set(limit headgate.Limit) error {
	if err := p.Set(limit); err != nil {
		return err
	}
	p.limit, p.kind = limit, p.Kind()
	p.life, p.compact = lifeOf(&p.Plan)
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
		p, err := newPlan(limit)
		if err == nil {
			s.plans.Put(&limit, p)
		}
		return p, err
	}
	p := loans.Get().(*plan)
	if err := p.set(limit); err != nil {
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
