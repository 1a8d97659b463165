package headgate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// The same program counts in memory, in Redis or behind a guard: only the first argument of Bind changes.
func ExampleBind() {
	store, clock := newStore()
	defer store.Close()
	perUser, err := headgate.Bind(store, headgate.PerSecond(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(perUser.Allow("alice"), perUser.Allow("alice"), perUser.Allow("alice"))
	clock.Advance(500 * time.Millisecond)
	fmt.Println(perUser.Allow("alice"), perUser.Allow("bob"))
	// Output:
	// true true false
	// true true
}

func ExampleBound_Take() {
	store, _ := newStore()
	defer store.Close()
	perUser := headgate.MustBind(store, headgate.PerMinute(10))

	d, err := perUser.Take(context.Background(), "alice", 4)
	fmt.Println(d.Allowed, d.Remaining, err)
	d, err = perUser.Take(context.Background(), "alice", 8)
	fmt.Println(d.Allowed, d.RetryAfter, err)
	// Output:
	// true 6 <nil>
	// false 12s <nil>
}

// An unreachable or full limiter allows by default. WithPolicy changes that.
func ExampleBound_WithPolicy() {
	store, _ := newStore()
	defer store.Close()
	logins := headgate.MustBind(store, headgate.PerMinute(5)).WithPolicy(headgate.Closed)
	fmt.Println(logins.Allow("alice"), logins.Allow("")) // a mistake is denied under every policy
	// Output: true false
}

// Delay schedules work instead of blocking.
func ExampleBound_Delay() {
	store, _ := newStore()
	defer store.Close()
	mails := headgate.MustBind(store, headgate.MustParseLimit("10/s burst 1"))
	for range 3 {
		d, err := mails.Delay(context.Background(), "smtp.example.com", 1)
		fmt.Println(d.Allowed, d.Delay, err)
	}
	// Output:
	// true 0s <nil>
	// true 100ms <nil>
	// true 200ms <nil>
}

// Hold bounds how many run at once, in all processes that share the limiter.
func ExampleHold() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	reports := headgate.Check{Key: "reports", Limit: headgate.InFlight(1), Cost: 1}
	release, err := headgate.Hold(context.Background(), store, reports)
	d, _ := store.Peek(context.Background(), reports)
	fmt.Println(err, d.Allowed)
	release()
	d, _ = store.Peek(context.Background(), reports)
	fmt.Println(d.Allowed)
	// Output:
	// <nil> false
	// true
}

func ExampleDo() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	reports := headgate.Check{Key: "reports", Limit: headgate.InFlight(2), Cost: 1}
	err = headgate.Do(context.Background(), store, reports, func() error {
		fmt.Println("at most two at once")
		return nil
	})
	fmt.Println(err)
	// Output:
	// at most two at once
	// <nil>
}

// Take an estimate, and settle it when the cost is known.
func ExampleSettle() {
	store, _ := newStore()
	defer store.Close()
	ctx := context.Background()
	tokens := headgate.Check{Key: "llm/alice", Limit: headgate.PerMinute(1000), Cost: 300}
	for _, used := range []int64{120, 450} {
		d, _ := store.Take(ctx, tokens)
		err := headgate.Settle(ctx, store, tokens, d.Receipt, used)
		left, _ := store.Peek(ctx, tokens)
		fmt.Println(used, "used,", left.Remaining, "left", err)
	}
	// Output:
	// 120 used, 880 left <nil>
	// 450 used, 430 left <nil>
}

// A client has several limits at the same time. A denied request takes units of none of them.
func ExampleBindAll() {
	store, clock := newStore()
	defer store.Close()
	perUser := headgate.MustBindAll(store, headgate.PerSecond(2), headgate.PerDay(3))

	fmt.Println(perUser.Allow("alice"), perUser.Allow("alice"), perUser.Allow("alice"))
	clock.Advance(time.Second)
	fmt.Println(perUser.Allow("alice"), perUser.Allow("alice"))
	// Output:
	// true true false
	// true false
}
