package memstore

import (
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
