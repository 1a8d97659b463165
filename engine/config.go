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
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// DefaultMaxWaiting is the default of Config.MaxWaiting.
const DefaultMaxWaiting = 10_000

// Config configures an Engine. Only Store is required.
type Config struct {
	// Rules are the rules at the start. Default none: every request is allowed.
	Rules *match.Set
	// Store counts for consistency: exact, and for all other rules that have no store of their own.
	Store headgate.Limiter
	// Local is the store in this process: it counts for consistency: local, counts the denials for penalties, and decides
	// for on_failure: local when another store fails. Default Store; then a failing Store has no fallback, and
	// on_failure: local means open.
	Local headgate.Limiter
	// Shared says that nodes share Store, such as Redis. Rules without a consistency are then exact, otherwise local.
	Shared bool
	// Modes are the stores for lease, async and gossip. Rules that need a missing one are refused.
	Modes map[rules.Consistency]headgate.Limiter
	// Global are the stores for limits that regions share (scope: global), for exact, lease and async. Rules that need
	// a missing one are refused.
	Global map[rules.Consistency]headgate.Limiter
	// Secret is the key that encrypts leases (Verdict.AppendLease), so that they can be neither read nor forged. It has at
	// least 16 bytes, and engines that share a store need the same secret. Default: a random secret if Store is not
	// Shared; otherwise none, and leases are not encrypted.
	Secret []byte
	// SecondSecret is another secret while Secret is being replaced: leases that it encrypted are accepted too. Default:
	// none.
	SecondSecret []byte
	// MaxWaiting limits the requests that are delayed at once by on_limit: delay; more are rejected. Default
	// DefaultMaxWaiting. If it is negative, no request is delayed.
	MaxWaiting int
	// Refuse reports whether this process is too busy for another request that a rule limits. Such a request is rejected
	// with 503 and the reason Overloaded, and takes nothing. It must be fast. Default: no request is refused.
	Refuse func() bool
	// Observe is called with every verdict before Decide returns, for telemetry. It must be fast, and must not keep the
	// verdict or anything it points to. Default none.
	Observe func(*Verdict)
	// Trace is called for the phases of every decision, for traces. It must be fast. Default none.
	Trace TraceFunc
	// Clock measures decisions and delays requests. Default the system's clock.
	Clock clock.Clock
	// Random returns random numbers, which select the decisions to measure. Default math/rand/v2.Uint32.
	Random func() uint32
	// OnError is called for every error that is not returned to a caller: a store failed and a policy decided, or units
	// could not be refunded or charged. It must be fast and safe for concurrent use. Default: log with slog at Warn, at
	// most once a second.
	OnError func(error)
}

// A Borrower is a Limiter that does not keep the strings of a check after it returns, and does not read owners. An
// Engine builds its keys in a reused buffer, so that a decision allocates nothing. memstore.Store implements it.
type Borrower interface {
	headgate.Limiter
	BorrowsKeys()
}

// A Faulter is a Limiter that knows why it decides a check without its store, like guard.Guard. Fault returns nil if
// the store is reachable.
type Faulter interface {
	headgate.Limiter
	Fault(c headgate.Check) error
}

// A store is a limiter of a Config.
type store struct {
	headgate.Limiter
	borrowsKeys bool // it is a Borrower
}

var (
	errNoStore = errors.New("engine: no Store: want a Limiter, such as a memstore.Store")
	errMode    = errors.New("engine: Modes")
	errGlobal  = errors.New("engine: Global")
)

// stores are the limiters of a Config in the order of their use: those that need no server come first.
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
	region, global := &s.byMode[rules.ScopeRegion], &s.byMode[rules.ScopeGlobal]
	if c.Store == nil {
		return s, errNoStore
	}
	local := c.Local
	if local == nil {
		local = c.Store
	}
	s.local = s.add(local)
	region[rules.Local] = s.local
	if err := s.addAll(region, c.Modes, []rules.Consistency{rules.Lease, rules.Async, rules.Gossip}, errMode); err != nil {
		return s, err
	}
	region[rules.Exact] = s.add(c.Store)
	region[rules.ByStore] = s.local
	if c.Shared {
		region[rules.ByStore] = region[rules.Exact]
	}
	err := s.addAll(global, c.Global, []rules.Consistency{rules.Async, rules.Lease, rules.Exact}, errGlobal)
	global[rules.ByStore] = global[rules.Exact]
	return s, err
}

// forRule returns the index of the store in which a rule counts, noStore if there is none.
func (s *stores) forRule(r *rules.Rule) int8 { return s.byMode[r.Scope][r.Consistency] }

// addAll adds the limiters of a Config's field, in the order of the allowed modes, and sets their indexes.
func (s *stores) addAll(
	indexes *[rules.Local + 1]int8, limiters map[rules.Consistency]headgate.Limiter,
	modes []rules.Consistency, field error,
) error {
	for mode, l := range limiters {
		if !slices.Contains(modes, mode) {
			return fmt.Errorf("%w: %s: want one of %v", field, mode, modes)
		}
		if l == nil {
			return fmt.Errorf("%w: %s: want a Limiter", field, mode)
		}
	}
	for _, mode := range modes {
		if l := limiters[mode]; l != nil {
			indexes[mode] = s.add(l)
		}
	}
	return nil
}

// add returns the index of a limiter, and adds it to the list if it is new.
func (s *stores) add(l headgate.Limiter) int8 {
	for i := range s.list {
		if identical(s.list[i].Limiter, l) {
			return int8(i)
		}
	}
	_, borrowsKeys := l.(Borrower)
	s.list = append(s.list, store{Limiter: l, borrowsKeys: borrowsKeys})
	return int8(len(s.list) - 1)
}

// identical reports whether two limiters are identical.
func identical(a, b headgate.Limiter) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// logError returns the default of Config.OnError.
func logError(c clock.Clock) func(error) {
	var last, suppressed atomic.Int64
	start := c.Now()
	return func(err error) {
		now := int64(c.Since(start)) + 1
		before := last.Load()
		if before != 0 && now-before < int64(time.Second) || !last.CompareAndSwap(before, now) {
			suppressed.Add(1)
			return
		}
		slog.Warn("error while deciding a request", "err", err, "suppressed", suppressed.Swap(0))
	}
}
