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
	// Local is the store in this process. It counts for rules with consistency: local and the denials that lead to
	// penalties, and decides for rules with on_failure: local when another store fails. Default Store; then there is no
	// fallback when Store fails, and on_failure: local means open.
	Local headgate.Limiter
	// Shared reports whether other nodes use the same Store, for example one in Redis. Rules without a consistency are
	// then exact. Otherwise they are local.
	Shared bool
	// Modes are the stores for the consistencies lease, async and gossip. A rule whose store is missing is refused.
	Modes map[rules.Consistency]headgate.Limiter
	// Global are the stores for limits that regions share (scope: global), for the consistencies exact, lease and async.
	// A rule whose store is missing is refused.
	Global map[rules.Consistency]headgate.Limiter
	// Secret encrypts leases (see Verdict.AppendLease), so that they can be neither read nor forged. It has at least
	// 16 bytes. Engines that share a store need the same secret. Default: a random secret if Store is not Shared;
	// otherwise none, and leases are not encrypted.
	Secret []byte
	// SecondSecret is the old or the new secret while Secret is being replaced: leases that were encrypted with it are
	// accepted too. Default: none.
	SecondSecret []byte
	// MaxWaiting is the maximum number of requests that are delayed at the same time by rules with on_limit: delay.
	// Further requests are rejected. Default DefaultMaxWaiting. If it is negative, no request is delayed.
	MaxWaiting int
	// Refuse reports whether this process is too busy to decide another request. If so, a request that a rule limits is
	// rejected with 503 and the reason Overloaded, and takes nothing. Refuse must be fast. Default: it is never too busy.
	Refuse func() bool
	// Observe is called with every verdict before Decide returns, for telemetry. It must be fast, and must not keep the
	// verdict or anything it points to. Default none.
	Observe func(*Verdict)
	// Trace is called when a phase of a decision begins, for distributed tracing. It must be fast. Default none.
	Trace TraceFunc
	// Clock is the time source for measuring decisions and delaying requests. Default: the system's clock.
	Clock clock.Clock
	// Random returns random numbers that select the decisions whose duration is measured. Default math/rand/v2.Uint32.
	Random func() uint32
	// OnError is called with every error that is not returned to a caller: a store failed and a policy decided, or units
	// could not be refunded or charged. It must be fast and safe for concurrent use. Default: log the error with slog at
	// level Warn, at most once a second.
	OnError func(error)
}

// A Borrower is a Limiter that does not retain the strings of a check after it returns, and does not read Check.Owner.
// An Engine passes it keys in a reused buffer, so that a decision allocates nothing. memstore.Store is a Borrower.
type Borrower interface {
	headgate.Limiter
	BorrowsKeys()
}

// A Faulter is a Limiter that knows why it decides a check without its store, such as guard.Guard. Fault returns the
// reason, or nil if the store is reachable.
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

// stores are the limiters of a Config. They are listed in the order in which a request uses them: the limiters that
// call no server for every check come first.
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

// forRule returns the index of the store in which a rule counts, noStore if there is none.
func (s *stores) forRule(r *rules.Rule) int8 { return s.byMode[r.Scope][r.Consistency] }

// addAll adds the limiters of a Config's field in the order of modes, the allowed keys, and sets their indexes. field
// is the error that names the field.
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

// identical reports whether two limiters are the same. It returns false if their types are not comparable.
func identical(a, b headgate.Limiter) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// logError returns the default of Config.OnError.
func logError(c clock.Clock) func(error) {
	var lastLog atomic.Int64 // nanoseconds since start, at least 1; 0 if there was none
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
