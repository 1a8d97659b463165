// Package stepstore is the simplest Limiter: a map of states behind one mutex, changed by the pure steps of package
// algorithm. It expires no keys by itself and is not fast; it tests the steps, and is the reference for faster stores.
package stepstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

var _ headgate.Limiter = (*Store)(nil)

// A Store is a headgate.Limiter. Create one with New. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu     sync.Mutex
	plans  map[headgate.Limit]*algorithm.Plan
	states map[stateKey]algorithm.State
	leases uint64
}

// A stateKey names a state: concurrency slots are not consumption, and are stored separately.
type stateKey struct {
	leases bool
	key    string
}

// New returns an empty store with the clock now.
func New(now func() time.Time) *Store {
	return &Store{
		now:    now,
		plans:  make(map[headgate.Limit]*algorithm.Plan),
		states: make(map[stateKey]algorithm.State),
	}
}

// Take decides one check.
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := validate(ctx, c); err != nil {
		return headgate.Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open(c, s.now()).take(c.Cost), nil
}

// Peek returns the decision that Take would return.
func (s *Store) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := validate(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if err := c.ValidatePeek(); err != nil {
		return headgate.Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open(c, s.now())
	return a.plan.Peek(a.state(), a.now, c.Cost), nil
}

// TakeAll takes all or none.
func (s *Store) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := validate(ctx, checks...); err != nil {
		return dst, err
	}
	if err := headgate.ValidateCombination(checks); err != nil {
		return dst, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.now(), len(dst)
	mayPass := mayPass(checks)
	for _, c := range checks {
		a := s.open(c, now)
		if mayPass {
			s.states[a.key] = a.state()
		}
		dst = append(dst, a.plan.Decide(a.state(), a.now, c.Cost))
	}
	allowed := headgate.Allowed(dst[before:])
	for i, c := range checks {
		a, d := s.open(c, now), &dst[before+i]
		switch {
		case allowed, mayPass && !d.Allowed:
			*d = a.take(c.Cost)
		case d.Allowed:
			*d = a.plan.Decide(a.state(), a.now, 0)
		}
	}
	return dst, nil
}

// Charge takes the cost even above the limit.
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := validate(ctx, c); err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open(c, s.now())
	state, d, err := a.plan.Charge(a.state(), a.now, c.Cost)
	if err != nil {
		return headgate.Decision{}, err
	}
	s.states[a.key] = state
	return d, nil
}

// Grant takes units that the caller will hand out itself: at least c.Cost, at most want, and no more than the part
// 1/share of what remains. See [algorithm.Plan.Grant].
func (s *Store) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	if err := validate(ctx, c); err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open(c, s.now())
	state, d, err := a.plan.Grant(a.state(), a.now, c.Cost, want, share)
	if err != nil {
		return headgate.Decision{}, err
	}
	s.states[a.key] = state
	return d, nil
}

// Give returns units that were taken.
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := validate(ctx, c); err != nil {
		return err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open(c, s.now())
	state := s.states[a.key]
	if a.plan.Owns(state) {
		s.states[a.key] = a.plan.Give(state, a.now, c.Cost, r)
		return nil
	}
	shift := state.Offset(c.Key) - a.plan.Offset(c.Key)
	r.At -= shift
	s.states[a.key] = state.GiveBack(a.plan, a.now-shift, c.Cost, r)
	return nil
}

// Renew gives the slot of a concurrency limit another TTL.
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if err := validate(ctx, c); err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open(c, s.now())
	state, held, err := a.plan.Renew(a.state(), a.now, c.Cost, r.Lease)
	if err != nil {
		return false, err
	}
	s.states[a.key] = state
	return held, nil
}

// Reset deletes the consumption of the check's key.
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	if err := validate(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, stateKey{leases: false, key: c.Key})
	delete(s.states, stateKey{leases: true, key: c.Key})
	return nil
}

// Len returns the number of keys.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states)
}

// DropNew deletes the keys whose units have all drained. The clock must not go back afterwards, because the
// units would count again.
func (s *Store) DropNew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key, state := range s.states {
		for _, plan := range s.plans {
			if key.leases != (plan.Kind() == algorithm.KindLeases) || !plan.Owns(state) {
				continue
			}
			at := now.UnixMicro() - plan.Offset(key.key)
			if plan.Decide(state, at, 0).ResetAfter == 0 {
				delete(s.states, key)
				break
			}
		}
	}
}

// mayPass reports whether the checks could pass: none of them requests more than its limit's capacity.
func mayPass(checks []headgate.Check) bool {
	return !slices.ContainsFunc(checks, func(c headgate.Check) bool { return c.Cost > c.Limit.Capacity() })
}

// validate returns an error if ctx has ended or a check is invalid.
func validate(ctx context.Context, checks ...headgate.Check) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, c := range checks {
		if err := c.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// An account is one key under one plan at one time. The store must be locked while it is used.
type account struct {
	store *Store
	plan  *algorithm.Plan
	key   stateKey
	now   int64 // by the key's clock
}

// open returns the account of a valid check.
func (s *Store) open(c headgate.Check, now time.Time) account {
	plan := s.plans[c.Limit]
	if plan == nil {
		plan, _ = algorithm.NewPlan(c.Limit)
		s.plans[c.Limit] = plan
	}
	return account{s, plan, stateKey{plan.Kind() == algorithm.KindLeases, c.Key}, now.UnixMicro() - plan.Offset(c.Key)}
}

// state returns the state of the key, converted to the plan if it was written under another limit.
func (a account) state() algorithm.State {
	state := a.store.states[a.key]
	return a.plan.Convert(state, state.Offset(a.key.key)-a.plan.Offset(a.key.key), a.now)
}

// take takes n units. It stores a converted state even if they are denied.
func (a account) take(n int64) headgate.Decision {
	a.store.leases++
	state, d := a.plan.Take(a.state(), a.now, n, a.store.leases)
	if n > 0 && n <= a.plan.Capacity() {
		a.store.states[a.key] = state
	}
	return d
}
