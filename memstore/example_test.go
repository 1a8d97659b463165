package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// example returns a store with a clock that stands still until it is set, so that the outputs below are always the
// same. A program leaves Options.Now alone.
func example() (store *memstore.Store, clock *limittest.Clock, done func()) {
	clock = limittest.NewClock()
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		panic(err)
	}
	return store, clock, func() {
		if err := store.Close(); err != nil {
			panic(err)
		}
	}
}

func ExampleNew() {
	store, err := memstore.New(memstore.Options{
		MaxBytes: 64 << 20, // for the counters; 1 GiB if it is left out
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := store.Take(context.Background(), headgate.Check{
		Key:   "search/alice",
		Limit: headgate.PerSecond(10),
		Cost:  1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Allowed, d.Remaining)
	if err := store.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// true 9
}

// Options that make no sense are refused.
func ExampleNew_invalid() {
	_, err := memstore.New(memstore.Options{MaxBytes: 1000})
	fmt.Println(err)
	// Output:
	// memstore: MaxBytes 1000: want at least 8388608, or 0 for 1073741824
}

// A denial is an answer, not an error, and says when to come back.
func ExampleStore_Take() {
	store, clock, done := example()
	defer done()
	ctx := context.Background()
	check := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit("10/s burst 20"), Cost: 15}

	for range 3 {
		d, err := store.Take(ctx, check)
		if err != nil {
			fmt.Println(err)
			return
		}
		if d.Allowed {
			fmt.Printf("allowed, %d of %d left\n", d.Remaining, d.Limit)
			continue
		}
		fmt.Printf("denied, %d left, come back in %v\n", d.Remaining, d.RetryAfter)
		clock.Advance(d.RetryAfter)
	}
	// Output:
	// allowed, 5 of 20 left
	// denied, 5 left, come back in 1s
	// allowed, 0 of 20 left
}

// Peek reads a key and takes nothing.
func ExampleStore_Peek() {
	store, _, done := example()
	defer done()
	ctx := context.Background()
	check := headgate.Check{Key: "alice", Limit: headgate.PerMinute(100), Cost: 101}
	for range 2 {
		d, err := store.Peek(ctx, check)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Remaining, d.Allowed, d.RetryAfter == headgate.Never)
	}
	// Output:
	// 100 false true
	// 100 false true
}

// A check that makes no sense is an error, which says what would be right.
func ExampleStore_Take_invalid() {
	store, _, done := example()
	defer done()
	_, err := store.Take(context.Background(), headgate.Check{
		Key:   "alice",
		Limit: headgate.Limit{Count: 10, Period: time.Second, TTL: time.Minute},
		Cost:  1,
	})
	fmt.Println(errors.Is(err, headgate.ErrInvalidLimit))
	fmt.Println(err)
	// Output:
	// true
	// invalid limit: TTL 1m0s: want none: only concurrency has one
}

// On a hot path a limit is bound once. Allow allocates nothing.
func ExampleStore_Bind() {
	store, clock, done := example()
	defer done()
	perUser, err := store.Bind(headgate.MustParseLimit("2/s"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"alice", "alice", "alice", "bob"} {
		fmt.Println(user, perUser.Allow(user))
	}
	clock.Advance(500 * time.Millisecond)
	fmt.Println("alice", perUser.Allow("alice"))
	// Output:
	// alice true
	// alice true
	// alice false
	// bob true
	// alice true
}

// Requests that cost different amounts.
func ExampleBound_AllowN() {
	store, _, done := example()
	defer done()
	bytes, err := store.Bind(headgate.MustParseLimit("1000/s burst 5000"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, size := range []int64{3000, 3000, 2000} {
		fmt.Println(size, bytes.AllowN("upload/alice", size))
	}
	// Output:
	// 3000 true
	// 3000 false
	// 2000 true
}

// Take says what Allow does not: how much is left, and when to come back.
func ExampleBound_Take() {
	store, _, done := example()
	defer done()
	logins, err := store.Bind(headgate.MustParseLimit("3/m sliding-log"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 4 {
		d, err := logins.Take(context.Background(), "login/alice", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

// Several limits at once: all of them are taken, or none. Each has a key of its own.
func ExampleStore_TakeAll() {
	store, _, done := example()
	defer done()
	ctx := context.Background()
	checks := []headgate.Check{
		{Key: "alice/second", Limit: headgate.PerSecond(10), Cost: 4},
		{Key: "alice/day", Limit: headgate.MustParseLimit("10/d fixed-window"), Cost: 4},
		{Key: "everybody", Limit: headgate.PerSecond(1000), Cost: 4},
	}
	var decisions []headgate.Decision
	for range 3 {
		var err error
		decisions, err = store.TakeAll(ctx, checks, decisions[:0])
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(headgate.Allowed(decisions), ":")
		for _, d := range decisions {
			fmt.Print(" ", d.Remaining)
		}
		fmt.Println()
	}
	tightest := headgate.Tightest(decisions)
	fmt.Println("come back in", tightest.RetryAfter)
	// Output:
	// true: 6 6 996
	// true: 2 2 992
	// false: 2 2 992
	// come back in 24h0m0s
}

// What a request costs is sometimes known only afterwards. Take an estimate, then settle: Charge what is missing, even
// beyond the limit, or Give back what is too much.
func ExampleStore_Charge() {
	store, clock, done := example()
	defer done()
	ctx := context.Background()
	check := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit("100/s"), Cost: 20}
	d, err := store.Take(ctx, check)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("estimated at 20:", d.Remaining, "left")

	check.Cost = 130 // it was 150 in the end
	d, err = store.Charge(ctx, check)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("settled:", d.Remaining, "left")

	check.Cost = 1
	d, err = store.Take(ctx, check)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Allowed, "until the debt is repaid, in", d.RetryAfter)
	clock.Advance(d.RetryAfter)
	d, err = store.Take(ctx, check)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Allowed)
	// Output:
	// estimated at 20: 80 left
	// settled: -50 left
	// false until the debt is repaid, in 510ms
	// true
}

// A refund gives back what was not used, by the receipt of what was taken. What time has given back already is not
// given twice.
func ExampleStore_Give() {
	store, clock, done := example()
	defer done()
	ctx := context.Background()
	check := headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 10}
	give := func(units int64, r headgate.Receipt) {
		back := check
		back.Cost = units
		err := store.Give(ctx, back, r)
		d, _ := store.Peek(ctx, check)
		fmt.Println(err, d.Remaining)
	}
	first, _ := store.Take(ctx, check)
	give(6, first.Receipt)

	clock.Advance(time.Second)
	second, _ := store.Take(ctx, check)
	fmt.Println(second.Allowed)
	give(4, first.Receipt) // too late: these units have refilled by now
	// Output:
	// <nil> 6
	// true
	// <nil> 0
}

// A concurrency limit bounds what is in flight. Give ends it; who never calls it frees the place after the TTL.
func ExampleStore_Give_concurrency() {
	store, clock, done := example()
	defer done()
	ctx := context.Background()
	check := headgate.Check{Key: "reports/alice", Limit: headgate.MustParseLimit("2 concurrent ttl 30s"), Cost: 1}
	begin := func(name string) headgate.Receipt {
		d, err := store.Take(ctx, check)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(name, d.Allowed)
		return d.Receipt
	}
	first := begin("first")
	begin("second")
	begin("third")
	if err := store.Give(ctx, check, first); err != nil {
		fmt.Println(err)
	}
	begin("fourth")
	clock.Advance(30 * time.Second) // nobody released the second and the fourth
	begin("fifth")
	// Output:
	// first true
	// second true
	// third false
	// fourth true
	// fifth true
}

// Reset forgets what was consumed under a key.
func ExampleStore_Reset() {
	store, _, done := example()
	defer done()
	ctx := context.Background()
	perDay, err := store.Bind(headgate.MustParseLimit("1/d fixed-window"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(perDay.Allow("alice"))
	fmt.Println(perDay.Allow("alice"))
	if err := store.Reset(ctx, headgate.Check{Key: "alice"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(perDay.Allow("alice"))
	// Output:
	// true
	// false
	// true
}

func ExampleStore_Stats() {
	store, _, done := example()
	defer done()
	perUser, err := store.Bind(headgate.PerSecond(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 1000 {
		perUser.Allow(fmt.Sprint("client-", i))
	}
	stats := store.Stats()
	fmt.Println(stats.Keys, "keys")
	fmt.Println(stats.Bytes <= stats.MaxBytes, stats.Evictions, stats.Refusals)
	// Output:
	// 1000 keys
	// true 0 0
}
