// Package enginetest makes engines for the tests of what stands before one: rules from a text, and a store that can be away.
package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
)

// New returns an engine with the rules of a file's text, on a store of its own that is closed with the test.
func New(t testing.TB, rules string, o memstore.Options) (*engine.Engine, *Store) {
	t.Helper()
	counters, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counters.Close() })
	doc, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := &Store{Limiter: counters}
	made, err := engine.New(engine.Config{Rules: set, Store: store, OnError: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	return made, store
}

// ErrAway is what a store answers that is away.
var ErrAway = errors.New("connection refused")

// A Store is a Limiter that can be away, and counts what is given back and charged.
type Store struct {
	headgate.Limiter
	Away           atomic.Bool
	Before         func(context.Context) error // TakeAll; set it before the store is in use
	Gives, Charges atomic.Int64                // calls, with those while it was away
	Renews         atomic.Int64                // those that were done
}

// BorrowsKeys is as memstore does, see engine.Borrower.
func (s *Store) BorrowsKeys() {}

// Take is the Limiter's.
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if s.Away.Load() {
		return headgate.Decision{}, ErrAway
	}
	return s.Limiter.Take(ctx, c)
}

// TakeAll is the Limiter's.
func (s *Store) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if s.Before != nil {
		if err := s.Before(ctx); err != nil {
			return dst, err
		}
	}
	if s.Away.Load() {
		return dst, ErrAway
	}
	return s.Limiter.TakeAll(ctx, checks, dst)
}

// Renew is the Limiter's.
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if s.Away.Load() {
		return false, ErrAway
	}
	held, err := s.Limiter.Renew(ctx, c, r)
	s.Renews.Add(1)
	return held, err
}

// Give is the Limiter's.
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	s.Gives.Add(1)
	if s.Away.Load() {
		return ErrAway
	}
	return s.Limiter.Give(ctx, c, r)
}

// Charge is the Limiter's.
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	s.Charges.Add(1)
	if s.Away.Load() {
		return headgate.Decision{}, ErrAway
	}
	return s.Limiter.Charge(ctx, c)
}
