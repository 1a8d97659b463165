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
	// Rules are the initial rules. Default: no rules, so every request is allowed.
	Rules *match.Set
	// Store counts for rules with consistency: exact and, if it is Shared, for rules without a consistency.
	Store headgate.Limiter
	// Local is the store in this process. It counts for rules with consistency: local, and counts the denials that lead to
	// penalties. When another store fails, it decides for rules with on_failure: local. Default Store; if Store fails
	// then, on_failure: local means open.
	Local headgate.Limiter
	// Shared says that other nodes use the same Store, for example one in Redis. Rules without a consistency are exact if
	// Shared is set, and local otherwise.
	Shared bool
	// Modes are the stores for the consistencies lease, async and gossip. A rule whose store is missing is refused.
	Modes map[rules.Consistency]headgate.Limiter
	// Global are the stores for limits that regions share (scope: global), for the consistencies exact, lease and async.
	// A rule whose store is missing is refused.
	Global map[rules.Consistency]headgate.Limiter
	// Secret is the key with which Verdict.AppendLease encrypts leases, so that clients can neither read nor forge them.
	// It has at least 16 bytes. Engines that share a store need the same secret. Default: a random secret if Store is not
	// Shared; otherwise none, and leases are not encrypted.
	Secret []byte
	// SecondSecret is a second key for decrypting leases. While the Secret of a fleet is being replaced, set it to the old
	// or the new secret. Default: none.
	SecondSecret []byte
	// MaxWaiting is the maximum number of requests that are delayed at the same time by rules with on_limit: delay.
	// Further requests are rejected. Default DefaultMaxWaiting. If it is negative, no request is delayed.
	MaxWaiting int
	// TooBusy reports whether this process is too busy to decide another request. If so, a request that a rule limits is
	// rejected with 503 and the reason Overloaded, and takes nothing. TooBusy must be fast. Default: it is never too busy.
	TooBusy func() bool
	// Observe is called with every verdict before Decide returns, for telemetry. It must be fast, and must not keep the
	// verdict or anything it points to. Default none.
	Observe func(*Verdict)
	// Trace is called when a phase of a decision begins, for distributed tracing. It must be fast. Default none.
	Trace TraceFunc
	// Clock is the time source for measuring decisions and delaying requests. Default: the system's clock.
	Clock clock.Clock
	// Random returns random numbers that select the decisions whose duration is measured. Default math/rand/v2.Uint32.
	Random func() uint32
	// OnError is called with every error that is not returned to a caller, for example after a store failed and a policy
	// decided, or after a failed refund. It must be fast and safe for concurrent use. Default: log the error with slog at
	// level Warn, at most once a second.
	OnError func(error)
}

// A Borrower is a Limiter whose methods do not retain the strings of a check after they return, and do not read
// Check.Owner. An Engine passes it keys in a reused buffer, so that a decision allocates nothing. memstore.Store is a
// Borrower.
type Borrower interface {
	headgate.Limiter
	// BorrowsKeys does nothing. It marks a type as a Borrower.
	BorrowsKeys()
}

// A FaultReporter is a Limiter in front of a store, such as guard.Guard, that decides checks even while the store is
// unreachable. Fault returns why the store is not asked about c, or nil if it is.
type FaultReporter interface {
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

// stores are the limiters of a Config, in the order in which a request uses them. Limiters that do not call a server
// for every check come first.
type stores struct {
	list   []store
	byMode [rules.ScopeGlobal + 1][rules.Local + 1]int8 // index in list for each scope and consistency, or noStore
	local  int8                                         // index in list of Config.Local
}

// noStore is the index of a store that the Config does not have.
const noStore = -1

// newStores adds the limiters in the order of stores.list.
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

// forRule returns the index of the store in which a rule counts, or noStore if there is none.
func (s *stores) forRule(r *rules.Rule) int8 { return s.byMode[r.Scope][r.Consistency] }

// addAll adds limiters, in the order of modes, and sets indexes to their indexes in the list. Only the modes are
// allowed as keys. errField is an error with the name of the Config's field.
func (s *stores) addAll(
	indexes *[rules.Local + 1]int8, limiters map[rules.Consistency]headgate.Limiter,
	modes []rules.Consistency, errField error,
) error {
	for mode, l := range limiters {
		if !slices.Contains(modes, mode) {
			return fmt.Errorf("%w: %s: want one of %v", errField, mode, modes)
		}
		if l == nil {
			return fmt.Errorf("%w: %s: want a Limiter", errField, mode)
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

// identical reports whether two limiters are the same. It returns false if their types are not comparable.
func identical(a, b headgate.Limiter) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// logError returns the default of Config.OnError, which logs at most one error a second.
func logError(c clock.Clock) func(error) {
	var lastLog atomic.Int64 // time of the last log line in nanoseconds since start, plus 1; 0 before the first
	var suppressed atomic.Int64
	start := c.Now()
	return func(err error) {
		now := int64(c.Since(start)) + 1
		last := lastLog.Load()
		if last != 0 && now-last < int64(time.Second) || !lastLog.CompareAndSwap(last, now) {
			suppressed.Add(1)
			return
		}
		slog.Warn("error while deciding a request", "err", err, "suppressed", suppressed.Swap(0))
	}
}
