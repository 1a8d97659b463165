package memstore

import "github.com/headgate/headgate"

// A Bound is one limit of a store, prepared for decisions: the fastest way to decide many keys by the same limit. Its
// methods do not allocate. It is safe for concurrent use, and uses the same counters as the store's own methods.
type Bound struct {
	store *Store
	plan  *plan
}

// Bind prepares a limit for decisions. It returns the error of limit.Validate for an invalid limit.
func (s *Store) Bind(limit headgate.Limit) (*Bound, error) {
	p, err := s.newPlan(limit)
	if err != nil {
		return nil, err
	}
	return &Bound{store: s, plan: p}, nil
}

// Limit returns the limit that is bound.
func (b *Bound) Limit() headgate.Limit { return b.plan.limit }

// Allow takes one unit for the key and reports whether the request is allowed. It also returns true on an error: the
// key is empty or too long, or the store is full or closed. Take returns that error.
func (b *Bound) Allow(key string) bool { return b.AllowN(key, 1) }

// AllowN is like Allow for n units. It returns true for n < 1.
func (b *Bound) AllowN(key string, n int64) bool {
	if n < 1 {
		return true
	}
	s, p := b.store, b.plan
	if p.compact && !p.limit.Staggered && n <= p.Capacity() &&
		key != "" && len(key) <= headgate.MaxKeyBytes && !s.closed.Load() {
		hash := s.hash(p, key)
		if _, took := s.takeCompact(p, hash, s.now(), n); took <= yes {
			return took == yes
		}
	}
	d, err := b.Take(key, n)
	return err != nil || d.Allowed
}

// Take decides n units for the key, as Store.Take does.
func (b *Bound) Take(key string, n int64) (d headgate.Decision, err error) {
	if key == "" || len(key) > headgate.MaxKeyBytes || n < 1 {
		return d, headgate.Check{Key: key, Limit: b.plan.limit, Cost: n}.Validate()
	}
	if b.store.closed.Load() {
		return d, headgate.ErrClosed
	}
	err = b.store.take(b.plan, key, n, &d)
	return d, err
}
