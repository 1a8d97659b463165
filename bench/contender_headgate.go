package main

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// headgateBytes is room for more keys than any scenario has, so that nothing is evicted.
const headgateBytes = 16 << 30

func headgateEntries() []entry {
	return []entry{
		{name: "headgate", title: "**headgate**", role: ours, make: newHeadgate},
		{
			name: "headgate-take", title: "headgate, full answer", role: ours, variant: true,
			make: func(q quota, keys int) (contender, error) {
				c, err := newHeadgate(q, keys)
				if err != nil {
					return nil, err
				}
				return headgateTake{c.(*headgateStore)}, nil
			},
		},
	}
}

// headgateStore decides yes or no.
type headgateStore struct {
	store *memstore.Store
	bound *memstore.Bound
}

func newHeadgate(q quota, _ int) (contender, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: headgateBytes})
	if err != nil {
		return nil, fmt.Errorf("make memstore: %w", err)
	}
	bound, err := store.Bind(headgate.Per(int64(q.count), q.period))
	if err != nil {
		return nil, fmt.Errorf("bind limit: %w", err)
	}
	return &headgateStore{store: store, bound: bound}, nil
}

func (h *headgateStore) Allow(key string) bool { return h.bound.Allow(key) }

func (h *headgateStore) table() tableSize {
	stats := h.store.Stats()
	return tableSize{
		Keys:  stats.Keys,
		Bytes: stats.Bytes,
		Lost:  stats.Evictions + stats.Refusals,
	}
}

func (h *headgateStore) steps() (all, long int64) {
	stats := h.store.Stats()
	return stats.Steps, stats.LongSteps
}

// headgateTake asks for the whole Decision: what remains, when to come back, a receipt.
type headgateTake struct{ *headgateStore }

func (h headgateTake) Allow(key string) bool {
	d, err := h.bound.Take(key, 1)
	return err == nil && d.Allowed
}
