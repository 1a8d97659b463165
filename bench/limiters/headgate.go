package limiters

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/memstore"
)

// headgateBytes is enough memory for all keys of any scenario, so that none is evicted.
const headgateBytes = 16 << 30

func headgateEntries() []Entry {
	return []Entry{
		{Name: "headgate", Title: "**headgate**", Role: harness.Ours, Make: newHeadgate},
		{
			Name: "headgate-take", Title: "headgate, full answer", Role: harness.Ours, Variant: true,
			Make: func(q Quota, keys int) (Limiter, error) {
				c, err := newHeadgate(q, keys)
				if err != nil {
					return nil, err
				}
				return headgateTake{c.(*headgateStore)}, nil
			},
		},
	}
}

// headgateStore returns only whether a request is allowed.
type headgateStore struct {
	store *memstore.Store
	bound *headgate.Bound
}

func newHeadgate(q Quota, _ int) (Limiter, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: headgateBytes})
	if err != nil {
		return nil, fmt.Errorf("make memstore: %w", err)
	}
	bound, err := store.Bind(headgate.Per(int64(q.Count), q.Period))
	if err != nil {
		return nil, fmt.Errorf("bind limit: %w", err)
	}
	return &headgateStore{store: store, bound: bound}, nil
}

func (h *headgateStore) Allow(key string) bool { return h.bound.Allow(key) }

func (h *headgateStore) Table() harness.TableSize {
	stats := h.store.Stats()
	return harness.TableSize{
		Keys:  stats.Keys,
		Bytes: stats.Bytes,
		Lost:  stats.Evictions + stats.Refusals,
	}
}

func (h *headgateStore) Steps() (all, long int64) {
	stats := h.store.Stats()
	return stats.Steps, stats.LongSteps
}

// headgateTake returns the whole Decision, with the remaining units, the time until a retry, and a receipt.
type headgateTake struct{ *headgateStore }

func (h headgateTake) Allow(key string) bool {
	d, err := h.bound.Take(context.Background(), key, 1)
	return err == nil && d.Allowed
}
