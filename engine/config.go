package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// DefaultMaxWaiting is how many requests are held at once unless told otherwise.
const DefaultMaxWaiting = 10_000

// Config is what an Engine is made of. Only Store must be given.
type Config struct {
	// Rules are in force at the start. Default none: everything passes.
	Rules *rules.Set
	// Store counts what hosts share (consistency: exact), and everything else unless other stores are given.
	Store headgate.Limiter
	// Local counts in this process (consistency: local), counts denials for penalties, and decides by on_failure: local
	// when another store fails. Default Store; then a failing Store has nothing to fall back to, and local means open.
	Local headgate.Limiter
	// Shared tells that Store is shared by hosts, as Redis is: rules that name no consistency are exact. Otherwise they are
	// local.
	Shared bool
	// Modes are the stores for lease, async and gossip. A rule that asks for one that is missing does not load.
	Modes map[rules.Consistency]headgate.Limiter
	// Global are the stores for limits that several regions have together (scope: global), for exact, lease and async. A
	// rule that asks for one that is missing does not load.
	Global map[rules.Consistency]headgate.Limiter
	// Secret seals leases (Verdict.AppendLease), so that they can be neither read nor made up. Engines that share a store need
	// the same. At least 16 bytes. Default one by chance if the Store is this process's own, and if it is Shared none.
	Secret []byte
	// MaxWaiting is how many requests may be held at once by on_limit: delay; more are rejected. Default
	// DefaultMaxWaiting. Below zero none is held.
	MaxWaiting int
	// Observe is called with every verdict before Decide returns it, for telemetry. It must be fast, and must not keep the
	// verdict or what it points to. Default none.
	Observe func(*Verdict)
	// OnError is told of every fault that no caller gets to see: a store that failed so that a policy decided, units that
	// could not be given back or charged. It must be fast and safe for concurrent use. Default is to log with slog at Warn,
	// at most once a second.
	OnError func(error)
}

// A Borrower is a Limiter that reads the strings of a check only until it returns, and keeps none of them. It does not
// read owners either. The keys that an Engine asks it for are built in a buffer that is used again, so that a decision
// allocates nothing. memstore.Store is one.
type Borrower interface {
	headgate.Limiter
	BorrowsKeys()
}

// A Faulter is a Limiter that knows why it decides a check without its store, as guard.Guard does. Fault returns nil if the
// store answers.
type Faulter interface {
	headgate.Limiter
	Fault(c headgate.Check) error
}

// A store is a limiter that checks are sent to.
type store struct {
	headgate.Limiter
	borrows bool
}

var (
	errNoStore = errors.New("engine: no Store: want a Limiter, such as a memstore.Store")
	errMode    = errors.New("engine: Modes")
	errGlobal  = errors.New("engine: Global")
)

// stores are the limiters of a Config in the order in which they are asked: what asks no server comes first.
type stores struct {
	list   []store
	byMode [rules.ScopeGlobal + 1][rules.Local + 1]int8 // noStore if there is none
	local  int8
}

const noStore = -1

func newStores(c *Config) (stores, error) {
	s := stores{}
	for scope := range s.byMode {
		for mode := range s.byMode[scope] {
			s.byMode[scope][mode] = noStore
		}
	}
	near, far := &s.byMode[rules.ScopeRegion], &s.byMode[rules.ScopeGlobal]
	if c.Store == nil {
		return s, errNoStore
	}
	local := c.Local
	if local == nil {
		local = c.Store
	}
	s.local = s.add(local)
	near[rules.Local] = s.local
	if err := s.addAll(near, c.Modes, []rules.Consistency{rules.Lease, rules.Async, rules.Gossip}, errMode); err != nil {
		return s, err
	}
	near[rules.Exact] = s.add(c.Store)
	near[rules.ByStore] = s.local
	if c.Shared {
		near[rules.ByStore] = near[rules.Exact]
	}
	if err := s.addAll(far, c.Global, []rules.Consistency{rules.Async, rules.Lease, rules.Exact}, errGlobal); err != nil {
		return s, err
	}
	far[rules.ByStore] = far[rules.Exact]
	return s, nil
}

// of returns the place of the store that counts for a rule, noStore if there is none.
func (s *stores) of(r *rules.Rule) int8 { return s.byMode[r.Scope][r.Consistency] }

// addAll puts the limiters of some modes in their places, in the order of those modes that there may be.
func (s *stores) addAll(places *[rules.Local + 1]int8, given map[rules.Consistency]headgate.Limiter, modes []rules.Consistency, of error) error {
	for mode, l := range given {
		if !slices.Contains(modes, mode) {
			return fmt.Errorf("%w: %s: want one of %v", of, mode, modes)
		}
		if l == nil {
			return fmt.Errorf("%w: %s: want a Limiter", of, mode)
		}
	}
	for _, mode := range modes {
		if l := given[mode]; l != nil {
			places[mode] = s.add(l)
		}
	}
	return nil
}

// add returns the place of a limiter, which is put in the list if it is new.
func (s *stores) add(l headgate.Limiter) int8 {
	for i := range s.list {
		if same(s.list[i].Limiter, l) {
			return int8(i)
		}
	}
	_, borrows := l.(Borrower)
	s.list = append(s.list, store{Limiter: l, borrows: borrows})
	return int8(len(s.list) - 1)
}

// same tells whether two limiters are one.
func same(a, b headgate.Limiter) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// logError returns the default of Config.OnError.
func logError() func(error) {
	var last, unsaid atomic.Int64
	start := time.Now()
	return func(err error) {
		now := int64(time.Since(start)) + 1
		before := last.Load()
		if before != 0 && now-before < int64(time.Second) || !last.CompareAndSwap(before, now) {
			unsaid.Add(1)
			return
		}
		slog.Warn("headgate: a fault that no caller sees", "err", err, "unsaid", unsaid.Swap(0))
	}
}
