package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// newStore returns a store whose clock stands still until it is set, so that the outputs below are always the same. A
// program leaves Options.Clock alone.
func newStore() (*memstore.Store, *limittest.Clock) {
	clock := limittest.NewClock()
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		panic(err)
	}
	return store, clock
}

// A denial is a decision, not an error.
func ExampleLimiter() {
	store, clock := newStore()
	defer store.Close()
	var limiter headgate.Limiter = store

	check := headgate.Check{Key: "search/alice", Limit: headgate.PerSecond(2), Cost: 1}
	for range 3 {
		d, err := limiter.Take(context.Background(), check)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	}
	clock.Advance(500 * time.Millisecond)
	d, _ := limiter.Take(context.Background(), check)
	fmt.Println(d.Allowed)
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 500ms
	// true
}

// Two limits of one client are taken together, or neither is. Each has a key of its own.
func ExampleLimiter_takeAll() {
	store, _ := newStore()
	defer store.Close()

	checks := []headgate.Check{
		{Key: "alice/second", Limit: headgate.PerSecond(10), Cost: 4},
		{Key: "alice/day", Limit: headgate.MustParseLimit("6/d fixed-window"), Cost: 4},
	}
	var decisions []headgate.Decision
	for range 2 {
		var err error
		decisions, err = store.TakeAll(context.Background(), checks, decisions[:0])
		if err != nil {
			fmt.Println(err)
			return
		}
		tightest := headgate.Tightest(decisions)
		fmt.Println(headgate.Allowed(decisions), tightest.Limit, tightest.Remaining, tightest.RetryAfter)
	}
	second, _ := store.Peek(context.Background(), checks[0])
	fmt.Println(second.Remaining)
	// Output:
	// true 6 2 0s
	// false 6 2 24h0m0s
	// 6
}

// What a request costs is sometimes known only afterwards: take an estimate, then charge the rest.
func ExampleLimiter_charge() {
	store, _ := newStore()
	defer store.Close()

	tokens := headgate.Check{Key: "llm/alice", Limit: headgate.PerMinute(1000), Cost: 100}
	estimate, _ := store.Take(context.Background(), tokens)
	fmt.Println(estimate.Allowed, estimate.Remaining)

	tokens.Cost = 1400 - 100 // it used 1400
	settled, _ := store.Charge(context.Background(), tokens)
	fmt.Println(settled.Allowed, settled.Remaining)

	tokens.Cost = 1
	next, _ := store.Take(context.Background(), tokens)
	fmt.Println(next.Allowed, next.RetryAfter)
	// Output:
	// true 900
	// false -400
	// false 24.06s
}

// What was not used goes back, with the receipt of the decision that took it.
func ExampleLimiter_give() {
	store, _ := newStore()
	defer store.Close()

	check := headgate.Check{Key: "alice", Limit: headgate.PerMinute(10), Cost: 8}
	d, _ := store.Take(context.Background(), check)
	check.Cost = 5
	err := store.Give(context.Background(), check, d.Receipt)
	look, _ := store.Peek(context.Background(), check)
	fmt.Println(d.Remaining, err, look.Remaining)
	// Output: 2 <nil> 7
}

func ExampleLimiter_reset() {
	store, _ := newStore()
	defer store.Close()

	check := headgate.Check{Key: "alice", Limit: headgate.PerHour(1), Cost: 1}
	first, _ := store.Take(context.Background(), check)
	err := store.Reset(context.Background(), headgate.Check{Key: "alice"})
	second, _ := store.Take(context.Background(), check)
	fmt.Println(first.Allowed, err, second.Allowed)
	// Output: true <nil> true
}

// A limit on what is in flight: the receipt releases the place.
func ExampleInFlight() {
	store, _ := newStore()
	defer store.Close()

	check := headgate.Check{Key: "reports", Limit: headgate.InFlight(1), Cost: 1}
	first, _ := store.Take(context.Background(), check)
	second, _ := store.Take(context.Background(), check)
	err := store.Give(context.Background(), check, first.Receipt)
	third, _ := store.Take(context.Background(), check)
	fmt.Println(first.Allowed, second.Allowed, err, third.Allowed)
	// Output: true false <nil> true
}

// A leaky-bucket tells each request how long to wait, so that what passes is spaced evenly.
func ExampleDecision() {
	store, _ := newStore()
	defer store.Close()

	check := headgate.Check{Key: "backend", Limit: headgate.MustParseLimit("10/s leaky-bucket burst 3"), Cost: 1}
	for range 4 {
		d, _ := store.Take(context.Background(), check)
		fmt.Println(d.Allowed, d.Delay, d.RetryAfter, d.ResetAfter)
	}
	// Output:
	// true 0s 0s 100ms
	// true 100ms 0s 200ms
	// true 200ms 0s 300ms
	// false 0s 100ms 300ms
}

func ExampleReceipt() {
	store, clock := newStore()
	defer store.Close()

	check := headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 10}
	d, _ := store.Take(context.Background(), check)
	fmt.Println(d.Receipt.Units, time.UnixMicro(d.Receipt.At).UTC().Format(time.DateTime))

	clock.Advance(time.Hour) // the bucket is full again: giving back now adds nothing
	err := store.Give(context.Background(), check, d.Receipt)
	look, _ := store.Peek(context.Background(), check)
	fmt.Println(err, look.Remaining)
	// Output:
	// 10 2026-01-01 00:00:00
	// <nil> 10
}

func ExampleWait() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	check := headgate.Check{Key: "crawler/example.org", Limit: headgate.Per(1, time.Millisecond), Cost: 1}
	for range 3 {
		if err := headgate.Wait(ctx, store, check); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("fetch a page")
	}
	check.Cost = 2
	fmt.Println(errors.Is(headgate.Wait(ctx, store, check), headgate.ErrNever))
	// Output:
	// fetch a page
	// fetch a page
	// fetch a page
	// true
}

func ExampleCheck() {
	store, _ := newStore()
	defer store.Close()

	check := headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 3}
	d, _ := store.Take(context.Background(), check)
	fmt.Println(d.Allowed, d.Remaining)
	// Output: true 7
}

func ExampleCheck_Validate() {
	fmt.Println(headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: -1}.Validate())
	// Output: invalid check: Cost -1: want at least 1; Peek reads without taking, Give returns units
}

func ExampleValidateKey() {
	fmt.Println(headgate.ValidateKey(""))
	// Output: invalid check: Key "": want a key that identifies the client and the limit
}

func ExampleValidateUnits() {
	fmt.Println(headgate.ValidateUnits(0))
	// Output: invalid check: Cost 0: want 1 to 1099511627776 units
}

func ExampleValidateRefund() {
	fmt.Println(headgate.ValidateRefund(6, headgate.Receipt{Units: 5}))
	// Output: invalid check: Cost 6: want at most the 5 units that the receipt says were taken
}

func ExampleValidateCombination() {
	fmt.Println(headgate.ValidateCombination([]headgate.Check{{Key: "alice"}, {Key: "alice"}}))
	// Output: invalid check: Key "alice": want different keys: each limit of a client needs its own key
}

func ExampleTightest() {
	decisions := []headgate.Decision{
		{Allowed: true, Limit: 10, Remaining: 3},
		{Allowed: true, Limit: 1000, Remaining: 2},
	}
	fmt.Println(headgate.Tightest(decisions).Limit)
	// Output: 1000
}

func ExampleAllowed() {
	fmt.Println(headgate.Allowed([]headgate.Decision{{Allowed: true}, {Allowed: false}}))
	// Output: false
}

func ExampleInputError() {
	_, err := headgate.ParseLimit("10/s burst 0")
	var input *headgate.InputError
	if errors.As(err, &input) {
		fmt.Println(input.Field, input.Value, "|", input.Want)
	}
	fmt.Println(errors.Is(err, headgate.ErrInvalidLimit))
	// Output:
	// Burst "0" | a whole number from 1 to 1099511627776
	// true
}
