package headgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// newStore returns a store whose clock stands still until it is set, so that the outputs below are always the same. A
// program leaves Options.Now alone.
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

func ExampleParseLimit() {
	for _, text := range []string{"10/s burst 20", "1000/h sliding-window", "100/1h sliding-buckets 12", "50 concurrent ttl 30s", "10/fortnight"} {
		l, err := headgate.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(l.Algorithm, l.Count, l.Period, l.Capacity())
	}
	// Output:
	// token-bucket 10 1s 20
	// sliding-window 1000 1h0m0s 1000
	// sliding-buckets 100 1h0m0s 100
	// concurrency 50 0s 50
	// invalid limit: Period "fortnight": want a unit (us, ms, s, m, h, d) or a time such as 30s, 1h30m, 7d
}

func ExampleParseLimit_spellings() {
	for _, text := range []string{"10 per second", "100 per 15 minutes", "0.5/s", "1k/min", "10/secnd"} {
		limit, err := headgate.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// 10/s
	// 100/15m
	// 1/2s
	// 1000/m
	// invalid limit: Period "secnd": want a unit (us, ms, s, m, h, d) or a time such as 30s, 1h30m, 7d; did you mean "second"?
}

// A Limit can be a flag.
func ExampleLimit_Set() {
	limit := headgate.PerSecond(10)
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.Var(&limit, "limit", "requests of a client")
	err := flags.Parse([]string{"-limit", "5 per minute"})
	fmt.Println(limit, err)
	// Output: 5/m <nil>
}

func ExampleLimit_LogValue() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("limit changed", "limit", headgate.PerMinute(5))
	// Output: level=INFO msg="limit changed" limit=5/m
}

func ExamplePerDay() {
	fmt.Println(headgate.PerDay(10_000))
	// Output: 10000/d
}

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

var perUser = headgate.MustParseLimit("1000/h sliding-window")

func ExampleMustParseLimit() {
	fmt.Println(perUser.Count, perUser.Period)
	// Output: 1000 1h0m0s
}

func ExamplePer() {
	fmt.Println(headgate.Per(100, 15*time.Minute), headgate.PerSecond(10), headgate.PerMinute(300), headgate.PerHour(1000))
	// Output: 100/15m 10/s 300/m 1000/h
}

func ExamplePerSecond() {
	limit := headgate.PerSecond(10)
	limit.Burst = 50
	fmt.Println(limit)
	// Output: 10/s burst 50
}

func ExamplePerMinute() {
	fmt.Println(headgate.PerMinute(300))
	// Output: 300/m
}

func ExamplePerHour() {
	limit := headgate.PerHour(1000)
	limit.Algorithm = headgate.FixedWindow
	limit.Staggered = true
	fmt.Println(limit)
	// Output: 1000/h fixed-window staggered
}

func ExampleLimit() {
	limit := headgate.Limit{Algorithm: headgate.GCRA, Count: 5, Period: time.Minute, Burst: 15}
	fmt.Println(limit, limit.Validate())
	// Output: 5/m gcra burst 15 <nil>
}

func ExampleLimit_Capacity() {
	fmt.Println(headgate.PerSecond(10).Capacity(), headgate.MustParseLimit("10/s burst 3").Capacity())
	// Output: 10 3
}

func ExampleLimit_Validate() {
	fmt.Println(headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Second, Burst: 20}.Validate())
	// Output: invalid limit: Burst 20: want none: only token-bucket, leaky-bucket and gcra have one, not fixed-window
}

func ExampleLimit_String() {
	fmt.Println(headgate.Limit{Count: 10, Period: 90 * time.Second, Burst: 20}.String())
	// Output: 10/90s burst 20
}

func ExampleLimit_MarshalText() {
	text, err := json.Marshal(map[string]headgate.Limit{"search": headgate.PerSecond(10)})
	fmt.Println(string(text), err)
	// Output: {"search":"10/s"} <nil>
}

func ExampleLimit_UnmarshalText() {
	var limits []headgate.Limit
	err := json.Unmarshal([]byte(`["10/s burst 20", "1000/h sliding-window"]`), &limits)
	fmt.Println(limits, err)
	// Output: [10/s burst 20 1000/h sliding-window] <nil>
}

func ExampleAlgorithm() {
	limit := headgate.PerHour(100)
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog, headgate.SlidingBuckets} {
		limit.Algorithm = a
		fmt.Println(a, "|", limit)
	}
	// Output:
	// token-bucket | 100/h
	// sliding-log | 100/h sliding-log
	// sliding-buckets | 100/h sliding-buckets
}

func ExampleAlgorithm_String() {
	fmt.Println(headgate.SlidingWindow.String())
	// Output: sliding-window
}

func ExampleParseAlgorithm() {
	a, err := headgate.ParseAlgorithm("gcra")
	fmt.Println(a == headgate.GCRA, err)
	// Output: true <nil>
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
	// Output: invalid check: Key "": want a name for whose limit this is
}

func ExampleValidateUnits() {
	fmt.Println(headgate.ValidateUnits(0))
	// Output: invalid check: Cost 0: want 1 to 1099511627776 units
}

func ExampleValidateRefund() {
	fmt.Println(headgate.ValidateRefund(6, headgate.Receipt{Units: 5}))
	// Output: invalid check: Cost 6: want at most the 5 units that the receipt says were taken
}

func ExampleValidateAll() {
	fmt.Println(headgate.ValidateAll([]headgate.Check{{Key: "alice"}, {Key: "alice"}}))
	// Output: invalid check: Key "alice": want each key once: every limit of a client has a key of its own
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
