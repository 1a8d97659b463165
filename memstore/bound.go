package memstore

import "github.com/headgate/headgate"

var _ headgate.Preparer = (*Store)(nil)

// Bind calls [headgate.Bind]. A Bound is the fastest way to apply one limit to many keys.
func (s *Store) Bind(limit headgate.Limit) (*headgate.Bound, error) { return headgate.Bind(s, limit) }

// Prepare implements [headgate.Preparer]. The methods of the result do not allocate.
func (s *Store) Prepare(limit headgate.Limit, onFailure headgate.Policy) (headgate.PreparedLimit, error) {
	p, err := s.newPlan(limit)
	if err != nil {
		return nil, err
	}
	return &prepared{store: s, plan: p, onFailure: onFailure}, nil
}

// prepared is a limit with its plan. It implements [headgate.PreparedLimit].
type prepared struct {
	store     *Store
	plan      *plan
	onFailure headgate.Policy
}

func (b *prepared) Limiter() headgate.Limiter { return b.store }

func (b *prepared) Allow(key string, n int64) bool {
	s, p := b.store, b.plan
	if p.compact && !p.limit.Staggered && n > 0 && n <= p.Capacity() &&
		key != "" && len(key) <= headgate.MaxKeyBytes && !s.closed.Load() {
		hash := s.hash(p, key)
		if _, result := s.takeCompact(p, hash, s.now(), n); result <= takeAllowed {
			return result == takeAllowed
		}
	}
	d, err := b.Take(key, n)
	if err != nil {
		return b.onFailure.Allows(err)
	}
	return d.Allowed
}

func (b *prepared) Take(key string, n int64) (d headgate.Decision, err error) {
	if key == "" || len(key) > headgate.MaxKeyBytes || n < 1 {
		return d, b.store.validatable(headgate.Check{Key: key, Limit: b.plan.limit, Cost: n}).Validate()
	}
	if b.store.closed.Load() {
		return d, headgate.ErrClosed
	}
	err = b.store.take(b.plan, key, n, &d)
	return d, err
}
