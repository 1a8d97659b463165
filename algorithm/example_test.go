package algorithm_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// millis returns the microseconds of a time in milliseconds since 1970, which is when these examples take place.
func millis(ms int64) int64 { return ms * 1000 }

func ExampleNewPlan() {
	plan, err := algorithm.NewPlan(headgate.MustParseLimit("10/s burst 20"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Limit(), plan.Capacity(), plan.Words())

	_, err = algorithm.NewPlan(headgate.Limit{Count: 10})
	fmt.Println(err)
	// Output:
	// 10/s burst 20 20 5
	// invalid limit: Period 0s: want whole microseconds from 1µs to 366d
}

// A store keeps one State for every key, and passes it in with the time.
func ExamplePlan_Take() {
	plan, err := algorithm.NewPlan(headgate.MustParseLimit("3/10s sliding-log"))
	if err != nil {
		fmt.Println(err)
		return
	}
	var alice algorithm.State // of a key never seen
	for _, now := range []int64{millis(0), millis(4000), millis(6000), millis(7000), millis(10_000)} {
		var d headgate.Decision
		alice, d = plan.Take(alice, now, 1, 0)
		fmt.Println(time.Duration(now)*time.Microsecond, d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// 0s true 2 0s
	// 4s true 1 0s
	// 6s true 0 0s
	// 7s false 0 3s
	// 10s true 0 0s
}

// A place under a concurrency limit has a name, which the caller makes up and which Give needs.
func ExamplePlan_Give() {
	plan, err := algorithm.NewPlan(headgate.InFlight(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	state, d := plan.Take(nil, millis(0), 1, 4711)
	fmt.Println(d.Allowed, plan.Decide(state, millis(1), 1).Allowed)
	state = plan.Give(state, millis(2), 1, d.Receipt)
	fmt.Println(plan.Decide(state, millis(3), 1).Allowed)
	// Output:
	// true false
	// true
}

// What goes beyond the limit is a debt, which time repays.
func ExamplePlan_Charge() {
	plan, err := algorithm.NewPlan(headgate.PerSecond(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	state, d, err := plan.Charge(nil, millis(0), 12)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Allowed, d.Remaining)
	fmt.Println(plan.Decide(state, millis(0), 1).RetryAfter)
	// Output:
	// false -8
	// 2.25s
}

// The state of most algorithms is a Pair: two words, which a store can keep without a slice. TakePair decides,
// DescribeTaken and DecidePair say what there is to say about it.
func ExamplePlan_TakePair() {
	plan, err := algorithm.NewPlan(headgate.PerSecond(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.IsPair())
	var alice algorithm.Pair // of a key never seen
	take := func(now, n int64) {
		after, ok := plan.TakePair(alice, now, n)
		if !ok {
			d := plan.DecidePair(alice, now, n)
			fmt.Println("denied,", d.Remaining, "left, come back in", d.RetryAfter)
			return
		}
		alice = after
		d := plan.DescribeTaken(alice, now, n)
		fmt.Println("allowed,", d.Remaining, "left, full in", d.ResetAfter)
	}
	take(millis(300), 6)
	take(millis(500), 5)
	take(millis(500), 3)
	// Output:
	// true
	// allowed, 4 left, full in 600ms
	// allowed, 1 left, full in 900ms
	// denied, 1 left, come back in 200ms
}

// DecidePair only looks: it tells what a take would meet.
func ExamplePlan_DecidePair() {
	plan, err := algorithm.NewPlan(headgate.MustParseLimit("5/m fixed-window"))
	if err != nil {
		fmt.Println(err)
		return
	}
	state := algorithm.Pair{Time: millis(0), Units: 4}
	for _, n := range []int64{0, 1, 2, 6} {
		d := plan.DecidePair(state, millis(45_000), n)
		if d.RetryAfter == headgate.Never {
			fmt.Println(n, d.Allowed, d.Remaining, "never")
			continue
		}
		fmt.Println(n, d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// 0 true 1 0s
	// 1 true 0 0s
	// 2 false 1 15s
	// 6 false 1 never
}
