package limittest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// A ClosableMaker returns a new limiter with its own counters, and the function that closes it. The function is nil
// if the limiter cannot be closed; its behavior after Close is then not checked.
type ClosableMaker = func(t testing.TB) (l headgate.Limiter, closeLimiter func() error)

// RunMisuse checks that mistakes of callers have safe results: a cost of 0 or below, an empty key, a nil context, a
// wrong receipt, the receipt of another limiter, use after Close, a second Close, and a copy of the limiter. A mistake
// must not admit a request that a correct call would deny, except that a refund with a wrong receipt may return the
// units that it asks for. RunMisuse uses the system clock. It calls newLimiter for each subtest, and twice for one of
// them.
func RunMisuse(t *testing.T, newLimiter ClosableMaker) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(m *misuse)
	}{
		{"cost 0", (*misuse).zeroCost},
		{"negative cost", (*misuse).negativeCost},
		{"empty key", (*misuse).emptyKey},
		{"nil context", (*misuse).nilContext},
		{"wrong receipt", (*misuse).wrongReceipt},
		{"receipt of another limiter", (*misuse).foreignReceipt},
		{"use after Close", (*misuse).useAfterClose},
		{"Close again", (*misuse).closeAgain},
		{"copy", (*misuse).copyOfLimiter},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &misuse{T: t, maker: newLimiter}
			m.limiter, m.close = m.newLimiter()
			c.run(m)
		})
	}
}

// misuse is a subtest of RunMisuse, with the limiter under test.
type misuse struct {
	*testing.T
	maker   ClosableMaker
	limiter headgate.Limiter
	close   func() error
}

// newLimiter returns a limiter that is closed after the test.
func (m *misuse) newLimiter() (headgate.Limiter, func() error) {
	l, closeLimiter := m.maker(m)
	if closeLimiter == nil {
		return l, nil
	}
	m.Cleanup(func() {
		if err := closeLimiter(); err != nil {
			m.Errorf("Close: %v", err)
		}
	})
	return l, closeLimiter
}

// misusedLimit refills so slowly that no unit returns during a test.
var misusedLimit = headgate.PerDay(5)

// requireRefused checks that the methods refuse a check with an InputError, and that nothing was taken.
func (m *misuse) requireRefused(c headgate.Check, methods ...limiterMethod) {
	m.Helper()
	for _, call := range methods {
		err := call.do(m.Context(), m.limiter, c)
		var input *headgate.InputError
		if !errors.As(err, &input) || !errors.Is(err, headgate.ErrInvalidCheck) {
			m.Errorf("%s: got error %v, want an InputError that wraps %q", call.name, err, headgate.ErrInvalidCheck)
		}
	}
	for _, key := range []string{"alice", firstValidKey, lastValidKey} { // callTakeAll uses the last two
		m.requireUnused(key)
	}
}

// requireUnused checks that nothing was taken for a key.
func (m *misuse) requireUnused(key string) {
	m.Helper()
	d, err := m.limiter.Peek(m.Context(), headgate.Check{Key: key, Limit: misusedLimit, Cost: 1})
	if err != nil || d.Remaining != misusedLimit.Capacity() {
		m.Errorf("peek at %s after misuse: got %+v, %v, want all %d remaining", key, d, err, misusedLimit.Capacity())
	}
}

// countAllowed takes units one by one, a few more than the limit allows, and returns how many were allowed.
func (m *misuse) countAllowed(key string, limit headgate.Limit) int64 {
	m.Helper()
	b := headgate.MustBind(m.limiter, limit)
	var n int64
	for range limit.Capacity() + 5 {
		if b.Allow(key) {
			n++
		}
	}
	return n
}

func (m *misuse) zeroCost() {
	m.requireRefused(headgate.Check{Key: "alice", Limit: misusedLimit},
		callTake, callTakeAll, callTakeAllOne, callCharge, callGive, callRenew)
	if headgate.MustBind(m.limiter, misusedLimit).AllowN("alice", 0) {
		m.Error("AllowN of 0 units: got true, want false")
	}
}

func (m *misuse) negativeCost() {
	for _, n := range []int64{-1, math.MinInt64} {
		m.requireRefused(headgate.Check{Key: "alice", Limit: misusedLimit, Cost: n}, methodsWithCost...)
		if headgate.MustBind(m.limiter, misusedLimit).AllowN("alice", n) {
			m.Errorf("AllowN of %d units: got true, want false", n)
		}
	}
}

func (m *misuse) emptyKey() {
	m.requireRefused(headgate.Check{Limit: misusedLimit, Cost: 1}, allMethods...)
	if headgate.MustBind(m.limiter, misusedLimit).Allow("") {
		m.Error("Allow of an empty key: got true, want false")
	}
}

func (m *misuse) nilContext() {
	var none context.Context
	for _, call := range allMethods {
		c := headgate.Check{Key: "alice", Limit: misusedLimit, Cost: 1}
		if err := call.do(none, m.limiter, c); !errors.Is(err, headgate.ErrNilContext) {
			m.Errorf("%s: got error %v, want %v", call.name, err, headgate.ErrNilContext)
		}
	}
	m.requireUnused("alice")
}

func (m *misuse) wrongReceipt() {
	b := headgate.MustBind(m.limiter, misusedLimit)
	d, err := b.Take(m.Context(), "alice", 2)
	if err != nil || !d.Allowed {
		m.Fatalf("Take: got %+v, %v, want allowed", d, err)
	}
	for name, give := range map[string]func() error{
		"more than was taken": func() error { return b.Give(m.Context(), "alice", 3, d.Receipt) },
		"a denial's":          func() error { return b.Give(m.Context(), "alice", 1, headgate.Receipt{}) },
		"negative units": func() error {
			return b.Give(m.Context(), "alice", 1, headgate.Receipt{At: d.Receipt.At, Units: -1})
		},
		"settled denial": func() error { return b.Settle(m.Context(), "alice", headgate.Receipt{}, 1) },
	} {
		if err := give(); !errors.Is(err, headgate.ErrInvalidCheck) {
			m.Errorf("%s: got error %v, want %v", name, err, headgate.ErrInvalidCheck)
		}
	}
	m.receiptsOfOthers(b, d.Receipt)
}

// receiptsOfOthers gives back units of bob, twice with the receipt of another key and then with invented receipts.
// The limiter may refuse them or not. Bob must not get more than the units of the limit and those that were given
// back.
func (m *misuse) receiptsOfOthers(b *headgate.Bound, alice headgate.Receipt) {
	maxUnits := misusedLimit.Capacity()
	got := m.countAllowed("bob", misusedLimit)
	for _, r := range []headgate.Receipt{
		alice, alice,
		{At: alice.At, Units: 5},
		{At: 1, Units: 5},
		{At: math.MaxInt64 / 4, Units: 5},
		{At: math.MinInt64 / 4, Units: 5, Lease: math.MaxUint64},
	} {
		switch err := b.Give(m.Context(), "bob", r.Units, r); {
		case err == nil:
			maxUnits += r.Units
		case errors.Is(err, headgate.ErrClosed):
			m.Errorf("Give to another key: %v", err)
		}
		if got += m.countAllowed("bob", misusedLimit); got > maxUnits {
			m.Errorf("after receipt %+v a total of %d units was allowed, want at most %d: the limit and the units given back",
				r, got, maxUnits)
		}
	}
}

func (m *misuse) foreignReceipt() {
	other, _ := m.newLimiter()
	mine, foreign := headgate.MustBind(m.limiter, misusedLimit), headgate.MustBind(other, misusedLimit)
	d, err := foreign.Take(m.Context(), "alice", 5)
	if err != nil || !d.Allowed {
		m.Fatalf("Take: got %+v, %v, want allowed", d, err)
	}
	if !mine.AllowN("alice", 2) {
		m.Fatal("two of five units are denied")
	}
	_ = mine.Give(m.Context(), "alice", 5, d.Receipt) // may be refused
	if n := m.countAllowed("alice", misusedLimit); n > misusedLimit.Capacity() {
		m.Errorf("%d units are allowed after 5 were given back of which 2 were taken, want at most the %d of a new key",
			n, misusedLimit.Capacity())
	}
	slot, err := other.Take(m.Context(), headgate.Check{Key: "jobs", Limit: headgate.InFlight(1), Cost: 1})
	if errors.Is(err, headgate.ErrUnsupported) {
		return
	}
	if err != nil || !slot.Allowed {
		m.Fatalf("Take of a slot: got %+v, %v, want allowed", slot, err)
	}
	jobs := headgate.MustBind(m.limiter, headgate.InFlight(1))
	if !jobs.Allow("jobs") {
		m.Fatal("a free slot is denied")
	}
	_ = jobs.Give(m.Context(), "jobs", 1, slot.Receipt) // may be refused
	if jobs.Allow("jobs") {
		m.Error("the slot of another limiter released ours")
	}
}

func (m *misuse) useAfterClose() {
	if m.close == nil {
		return
	}
	b := headgate.MustBind(m.limiter, misusedLimit)
	b.Allow("alice")
	if err := m.close(); err != nil {
		m.Fatalf("Close: %v", err)
	}
	for _, call := range allMethods {
		limit := misusedLimit
		if call.name == callRenew.name {
			limit = headgate.InFlight(1)
		}
		c := headgate.Check{Key: "alice", Limit: limit, Cost: 1}
		if err := call.do(m.Context(), m.limiter, c); !errors.Is(err, headgate.ErrClosed) {
			m.Errorf("%s: got error %v, want %v", call.name, err, headgate.ErrClosed)
		}
	}
	if b.Allow("alice") || b.WithPolicy(headgate.Closed).Allow("alice") {
		m.Error("Allow: got true, want false")
	}
	ctx, cancel := context.WithTimeout(m.Context(), 10*time.Second)
	defer cancel()
	if err := b.Wait(ctx, "alice"); !errors.Is(err, headgate.ErrClosed) {
		m.Errorf("Wait: got error %v, want %v", err, headgate.ErrClosed)
	}
}

func (m *misuse) closeAgain() {
	if m.close == nil {
		return
	}
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() { errs[i] = m.close() })
	}
	all.Wait()
	for _, err := range append(errs, m.close()) {
		if err != nil {
			m.Errorf("Close: got %v, want nil each time", err)
		}
	}
}

// copyOfLimiter checks that a copy of the limiter shares its counters, unless "go vet" refuses the copy because of a
// lock.
func (m *misuse) copyOfLimiter() {
	value := reflect.ValueOf(m.limiter)
	if value.Kind() != reflect.Pointer || hasLock(value.Type().Elem()) {
		return
	}
	other := reflect.New(value.Type().Elem())
	other.Elem().Set(value.Elem())
	n := m.countAllowed("alice", misusedLimit)
	m.limiter = other.Interface().(headgate.Limiter)
	if byCopy := m.countAllowed("alice", misusedLimit); n != misusedLimit.Capacity() || byCopy != 0 {
		m.Errorf("%d units are allowed, and then %d by a copy, want %d and none", n, byCopy, misusedLimit.Capacity())
	}
}

// hasLock reports whether a value of the type contains a lock, by the rule of go vet's copylocks: a type whose pointer
// has the methods Lock and Unlock.
func hasLock(typ reflect.Type) bool {
	switch {
	case reflect.PointerTo(typ).Implements(reflect.TypeFor[sync.Locker]()):
		return true
	case typ.Kind() == reflect.Array:
		return hasLock(typ.Elem())
	case typ.Kind() != reflect.Struct:
		return false
	}
	for i := range typ.NumField() {
		if hasLock(typ.Field(i).Type) {
			return true
		}
	}
	return false
}
