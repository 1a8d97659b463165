// Package enginetest creates engines for tests, on a store that can fail.
package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// New returns an engine with rules, and its store, which is closed at the end of the test.
func New(t testing.TB, list []rules.Rule, o memstore.Options) (*engine.Engine, *Store) {
	t.Helper()
	set, err := match.Compile(list)
	if err != nil {
		t.Fatal(err)
	}
	return NewCompiled(t, set, o)
}

// NewCompiled does the same as New, with compiled rules.
func NewCompiled(t testing.TB, set *match.Set, o memstore.Options) (*engine.Engine, *Store) {
	t.Helper()
	counters, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counters.Close() })
	store := &Store{Limiter: counters}
	decide, err := engine.New(engine.Config{Rules: set, Store: store, OnError: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	return decide, store
}

// Limits returns unnamed limits written as in a rules file, such as "10/s burst 20".
func Limits(texts ...string) []rules.Limit {
	list := make([]rules.Limit, len(texts))
	for i, text := range texts {
		list[i].Limit = headgate.MustParseLimit(text)
	}
	return list
}

// ErrUnreachable is the error of an unreachable Store.
var ErrUnreachable = errors.New("connection refused")

// A Store is a Limiter that can be unreachable, and counts gives and charges.
type Store struct {
	headgate.Limiter
	Unreachable    atomic.Bool
	OnTakeAll      func(context.Context) error // called by TakeAll; set it before the store is in use
	Gives, Charges atomic.Int64                // calls, including failed ones
	Renews         atomic.Int64                // successful calls
}

// BorrowsKeys marks the store as an engine.Borrower, like memstore.
func (s *Store) BorrowsKeys() {}

// Take calls the Limiter, unless the store is unreachable.
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if s.Unreachable.Load() {
		return headgate.Decision{}, ErrUnreachable
	}
	return s.Limiter.Take(ctx, c)
}

// Peek calls the Limiter, unless the store is unreachable.
func (s *Store) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if s.Unreachable.Load() {
		return headgate.Decision{}, ErrUnreachable
	}
	return s.Limiter.Peek(ctx, c)
}

// TakeAll calls the Limiter, unless the store is unreachable.
func (s *Store) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if s.OnTakeAll != nil {
		if err := s.OnTakeAll(ctx); err != nil {
			return dst, err
		}
	}
	if s.Unreachable.Load() {
		return dst, ErrUnreachable
	}
	return s.Limiter.TakeAll(ctx, checks, dst)
}

// Renew calls the Limiter, unless the store is unreachable.
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if s.Unreachable.Load() {
		return false, ErrUnreachable
	}
	held, err := s.Limiter.Renew(ctx, c, r)
	s.Renews.Add(1)
	return held, err
}

// Give calls the Limiter, unless the store is unreachable.
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	s.Gives.Add(1)
	if s.Unreachable.Load() {
		return ErrUnreachable
	}
	return s.Limiter.Give(ctx, c, r)
}

// Charge calls the Limiter, unless the store is unreachable.
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	s.Charges.Add(1)
	if s.Unreachable.Load() {
		return headgate.Decision{}, ErrUnreachable
	}
	return s.Limiter.Charge(ctx, c)
}
