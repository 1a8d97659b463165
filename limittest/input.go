package limittest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// inputTests returns the tests which check that invalid input is refused with a descriptive error, and changes nothing.
func inputTests() []suiteTest {
	return []suiteTest{
		{"input", "limits", (*trial).testInvalidLimits},
		{"input", "keys", (*trial).testInvalidKeys},
		{"input", "costs", (*trial).testInvalidCosts},
		{"input", "refunds", (*trial).testInvalidRefunds},
		{"input", "contexts", (*trial).testInvalidContexts},
		{"input", "lists", (*trial).testInvalidLists},
		{"input", "charge against a concurrency limit", (*trial).testChargeAgainstConcurrency},
	}
}

// A limiterMethod calls one method of a limiter with a check.
type limiterMethod struct {
	name string
	do   func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error
}

// Keys of valid checks that are passed together with invalid ones. requireUnchanged tests that their counters do not
// change.
const (
	firstValidKey = "first valid"
	lastValidKey  = "last valid"
)

// enoughUnits is a receipt with the maximum number of units, so that a cost is never refused because it is larger.
var enoughUnits = headgate.Receipt{At: Start.UnixMicro(), Units: math.MaxInt64}

var (
	callTake = limiterMethod{"Take", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		d, err := limiter.Take(ctx, c)
		return errWithoutDecision(d, err)
	}}
	callPeek = limiterMethod{"Peek", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		d, err := limiter.Peek(ctx, c)
		return errWithoutDecision(d, err)
	}}
	callTakeAll = limiterMethod{"TakeAll", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		first := headgate.Check{Key: firstValidKey, Limit: headgate.PerSecond(10), Cost: 1}
		last := headgate.Check{Key: lastValidKey, Limit: headgate.PerSecond(10), Cost: 1}
		_, err := limiter.TakeAll(ctx, []headgate.Check{first, c, last}, nil)
		return err
	}}
	callTakeAllOne = limiterMethod{"TakeAll of one", func(ctx context.Context, limiter headgate.Limiter,
		c headgate.Check,
	) error {
		_, err := limiter.TakeAll(ctx, []headgate.Check{c}, nil)
		return err
	}}
	callCharge = limiterMethod{"Charge", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		d, err := limiter.Charge(ctx, c)
		return errWithoutDecision(d, err)
	}}
	callGive = limiterMethod{"Give", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		return limiter.Give(ctx, c, enoughUnits)
	}}
	callRenew = limiterMethod{"Renew", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		_, err := limiter.Renew(ctx, c, enoughUnits)
		return err
	}}
	callReset = limiterMethod{"Reset", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
		return limiter.Reset(ctx, c)
	}}
)

var (
	// methodsWithCost are the methods of a limiter that read the cost and the limit of a check.
	methodsWithCost = []limiterMethod{callTake, callPeek, callTakeAll, callTakeAllOne, callCharge, callGive, callRenew}
	allMethods      = slices.Concat(methodsWithCost, []limiterMethod{callReset})
)

// errWithoutDecision returns err. If a method returned a decision together with err, it returns an error that does not
// wrap err instead, so that requireRefused fails.
func errWithoutDecision(d headgate.Decision, err error) error {
	if err != nil && d != (headgate.Decision{}) {
		return fmt.Errorf("got decision %+v together with error %s", d, err.Error())
	}
	return err
}

// requireRefused expects an *InputError that wraps want from every call.
func (tr *trial) requireRefused(description string, want error, c headgate.Check, methods ...limiterMethod) {
	tr.Helper()
	for _, call := range methods {
		err := call.do(context.Background(), tr.limiter, c)
		var input *headgate.InputError
		if !errors.As(err, &input) || !errors.Is(err, want) {
			tr.Errorf("%s with %s: got error %v, want an InputError that wraps %q", call.name, description, err, want)
		}
	}
}

// requireUnchanged takes one unit of each of three keys, and returns a function that fails the test if their counters
// have changed since.
func (tr *trial) requireUnchanged() (check func()) {
	l := headgate.PerSecond(10)
	keys := []string{"alice", firstValidKey, lastValidKey}
	for _, key := range keys {
		tr.take(key, l, 1)
	}
	return func() {
		tr.Helper()
		for _, key := range keys {
			if d := tr.peek(key, l); d.Remaining != 9 {
				tr.Errorf("key %s: got %d remaining after bad input, want 9", key, d.Remaining)
			}
		}
	}
}

func (tr *trial) testInvalidLimits() {
	defer tr.requireUnchanged()()
	type limit = headgate.Limit
	second := time.Second
	for _, l := range []limit{
		{},
		{Count: 0, Period: second},
		{Count: -1, Period: second},
		{Count: headgate.MaxCount + 1, Period: second},
		{Count: math.MaxInt64, Period: second},
		{Count: math.MinInt64, Period: second},
		{Count: 10},
		{Count: 10, Period: -second},
		{Count: 10, Period: 1},
		{Count: 10, Period: 1500 * time.Nanosecond},
		{Count: 10, Period: headgate.MaxPeriod + time.Microsecond},
		{Count: 10, Period: math.MaxInt64},
		{Count: 10, Period: second, Burst: -1},
		{Count: 10, Period: second, Burst: headgate.MaxCount + 1},
		{Count: 10, Period: second, Burst: math.MaxInt64},
		{Count: 1, Period: headgate.MaxPeriod, Burst: headgate.MaxCount}, // the bucket would take too long to refill
		{Count: 10, Period: second, Buckets: 10},
		{Count: 10, Period: second, TTL: second},
		{Count: 10, Period: second, Staggered: true},
		{Algorithm: headgate.Algorithm(len(headgate.Algorithms())), Count: 10, Period: second},
		{Algorithm: 255, Count: 10, Period: second},
		{Algorithm: headgate.FixedWindow, Count: 10, Period: second, Burst: 20},
		{Algorithm: headgate.SlidingWindow, Count: 10, Period: second, Burst: 20},
		{Algorithm: headgate.SlidingWindow, Count: 10, Period: second, Staggered: true},
		{Algorithm: headgate.SlidingLog, Count: headgate.MaxLogCount + 1, Period: second},
		{Algorithm: headgate.SlidingLog, Count: 10, Period: second, Burst: 20},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: second, Buckets: 1},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: second, Buckets: -1},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: second, Buckets: headgate.MaxBuckets + 1},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: second, Buckets: 7},   // 7 does not divide a second
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: 5 * time.Microsecond}, // DefaultBuckets does not divide 5
		{Algorithm: headgate.Concurrency, Count: headgate.MaxLogCount + 1},
		{Algorithm: headgate.Concurrency, Count: 10, Period: second},
		{Algorithm: headgate.Concurrency, Count: 10, Burst: 20},
		{Algorithm: headgate.Concurrency, Count: 10, TTL: -second},
		{Algorithm: headgate.Concurrency, Count: 10, TTL: 1},
		{Algorithm: headgate.Concurrency, Count: 10, TTL: headgate.MaxPeriod + time.Microsecond},
	} {
		c := headgate.Check{Key: "alice", Limit: l, Cost: 1}
		tr.requireRefused(fmt.Sprintf("%+v", l), headgate.ErrInvalidLimit, c, methodsWithCost...)
	}
}

func (tr *trial) testInvalidKeys() {
	defer tr.requireUnchanged()()
	for _, l := range allLimits {
		for _, key := range []string{"", strings.Repeat("k", headgate.MaxKeyBytes+1), strings.Repeat("k", 1<<20)} {
			c := headgate.Check{Key: key, Limit: l, Cost: 1}
			tr.requireRefused(fmt.Sprintf("a key of %d bytes", len(key)), headgate.ErrInvalidCheck, c, allMethods...)
		}
	}
	longKey := strings.Repeat("k", headgate.MaxKeyBytes)
	l := headgate.PerSecond(10)
	tr.take(longKey, l, 1)
	tr.requireUnused(longKey[1:], l, "the longest key without its first byte")
	if d := tr.peek(longKey, l); d.Remaining != 9 {
		tr.Errorf("longest key: got %d remaining, want 9", d.Remaining)
	}
	oddKey := "\xff\x00 \n{}:*é"
	tr.take(oddKey, l, 1)
	if d := tr.peek(oddKey, l); d.Remaining != 9 {
		tr.Errorf("key %q: got %d remaining, want 9", oddKey, d.Remaining)
	}
}

func (tr *trial) testInvalidCosts() {
	defer tr.requireUnchanged()()
	for _, l := range allLimits {
		for _, n := range []int64{-1, math.MinInt64} {
			tr.requireRefused(fmt.Sprintf("cost %d of %s", n, l), headgate.ErrInvalidCheck,
				headgate.Check{Key: "bad", Limit: l, Cost: n}, methodsWithCost...)
		}
		tr.requireRefused(fmt.Sprintf("cost 0 of %s", l), headgate.ErrInvalidCheck,
			headgate.Check{Key: "bad", Limit: l}, callTake, callTakeAll, callTakeAllOne)
		// Take and Peek accept a cost above MaxCount, but deny it.
		for _, n := range []int64{0, headgate.MaxCount + 1, math.MaxInt64} {
			tr.requireRefused(fmt.Sprintf("%d units of %s", n, l), headgate.ErrInvalidCheck,
				headgate.Check{Key: "bad", Limit: l, Cost: n}, callCharge, callGive, callRenew)
		}
		tr.requireUnused("bad", l, "after bad costs")
	}
}

func (tr *trial) testInvalidRefunds() {
	for _, l := range allLimits {
		d := tr.take("alice", l, 1)
		before := tr.peek("alice", l)
		c := headgate.Check{Key: "alice", Limit: l, Cost: 2}
		give := func(r headgate.Receipt) limiterMethod {
			return limiterMethod{"Give", func(ctx context.Context, limiter headgate.Limiter, c headgate.Check) error {
				return limiter.Give(ctx, c, r)
			}}
		}
		tr.requireRefused("2 units where 1 was taken", headgate.ErrInvalidCheck, c, give(d.Receipt))
		c.Cost = 1
		tr.requireRefused("units of an empty receipt", headgate.ErrInvalidCheck, c, give(headgate.Receipt{}))
		if after := tr.peek("alice", l); after != before {
			tr.Errorf("%s: bad refunds changed %+v to %+v", l, before, after)
		}
		tr.reset("alice")
	}
}

func (tr *trial) testInvalidContexts() {
	defer tr.requireUnchanged()()
	var none context.Context
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	for _, call := range allMethods {
		c := headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 1}
		for _, x := range []struct {
			ctx  context.Context
			want error
		}{{none, headgate.ErrNilContext}, {cancelled, context.Canceled}, {expired, context.DeadlineExceeded}} {
			if err := call.do(x.ctx, tr.limiter, c); !errors.Is(err, x.want) {
				tr.Errorf("%s: got error %v, want %v", call.name, err, x.want)
			}
		}
	}
}

func (tr *trial) testInvalidLists() {
	defer tr.requireUnchanged()()
	l := headgate.PerSecond(10)
	many := make([]headgate.Check, headgate.MaxChecks+1)
	for i := range many {
		many[i] = headgate.Check{Key: fmt.Sprint("key", i), Limit: l, Cost: 1}
	}
	many[0].Key = "alice"
	for name, checks := range map[string][]headgate.Check{
		"too many checks": many,
		"a key twice": {
			{Key: "alice", Limit: l, Cost: 1},
			{Key: lastValidKey, Limit: l, Cost: 1},
			{Key: "alice", Limit: l, Cost: 1},
		},
		"a key twice, with different limits": {
			{Key: "alice", Limit: l, Cost: 1},
			{Key: "alice", Limit: headgate.MustParseLimit("10/h fixed-window"), Cost: 1},
		},
	} {
		_, err := tr.limiter.TakeAll(context.Background(), checks, nil)
		var input *headgate.InputError
		if !errors.As(err, &input) || !errors.Is(err, headgate.ErrInvalidCheck) {
			tr.Errorf("TakeAll of %s: got error %v, want an InputError that wraps %q", name, err, headgate.ErrInvalidCheck)
		}
	}
}

func (tr *trial) testChargeAgainstConcurrency() {
	l := headgate.InFlight(3)
	tr.take("alice", l, 1)
	_, err := tr.limiter.Charge(context.Background(), headgate.Check{Key: "alice", Limit: l, Cost: 1})
	if !errors.Is(err, headgate.ErrUnsupported) {
		tr.Errorf("got error %v, want %v", err, headgate.ErrUnsupported)
	}
	if d := tr.peek("alice", l); d.Remaining != 2 {
		tr.Errorf("got %d remaining after a refused charge, want 2", d.Remaining)
	}
}
