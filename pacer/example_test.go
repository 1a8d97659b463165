package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/pacer"
)

// Most callers only want Acquire: it returns when it is their turn.
func ExampleBursty() {
	calls, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.PerSecond(1000), MaxBurst: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		if _, err := calls.Acquire(context.Background(), 1); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("call", i+1)
	}
	// Output:
	// call 1
	// call 2
	// call 3
}

// A large request goes at once when nothing is owed. The next caller waits for it.
func ExampleBursty_Reserve() {
	exports, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.Rate{Permits: 6, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, size := range []int64{12, 1, 1} {
		r := exports.Reserve(size)
		fmt.Printf("an export of %d starts in %v\n", size, r.Delay().Round(time.Minute))
	}
	// Output:
	// an export of 12 starts in 0s
	// an export of 1 starts in 2h0m0s
	// an export of 1 starts in 2h10m0s
}

// A caller that can't wait so long gets an error at once, and takes nothing.
func ExampleBursty_Acquire_deadline() {
	exports, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.Rate{Permits: 6, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		_, err := exports.Acquire(ctx, 1)
		var late *pacer.DeadlineError
		if errors.As(err, &late) {
			fmt.Printf("that would take %v\n", late.Wait.Round(time.Minute))
			return
		}
		fmt.Println("exported")
	}
	// Output:
	// exported
	// that would take 10m0s
}

func ExampleBursty_SetRate() {
	exports, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.Rate{Permits: 6, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	exports.Reserve(1)
	if err := exports.SetRate(pacer.Rate{Permits: 60, Per: time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(exports.Rate())
	// What was taken at the old rate is paid off at the old rate.
	fmt.Println("in", exports.Reserve(1).Delay().Round(time.Minute))
	fmt.Println("in", exports.Reserve(1).Delay().Round(time.Minute))
	// Output:
	// 60 per 1h0m0s
	// in 10m0s
	// in 11m0s
}

// Cold, requests are three times as far apart as at the rate. They come closer from one to the next, until the warm-up
// period has passed.
func ExampleWarmingUp() {
	requests, err := pacer.NewWarmingUp(pacer.WarmingUpOptions{
		Rate:   pacer.Rate{Permits: 60, Per: time.Hour},
		WarmUp: 4 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var last time.Duration
	for i := range 180 {
		at := requests.Reserve(1).Delay()
		if i%40 == 1 {
			fmt.Printf("request %3d comes %v after the one before\n", i, (at - last).Round(10*time.Second))
		}
		last = at
	}
	// Output:
	// request   1 comes 3m0s after the one before
	// request  41 comes 2m20s after the one before
	// request  81 comes 1m40s after the one before
	// request 121 comes 1m0s after the one before
	// request 161 comes 1m0s after the one before
}

func ExampleAllowance() {
	quota, err := pacer.NewAllowance(pacer.AllowanceOptions{Rate: pacer.Rate{Permits: 100, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("60:", quota.TryAcquire(60, 0))
	fmt.Println("60 more:", quota.TryAcquire(60, time.Minute))
	fmt.Println("left:", quota.Available())
	_, err = quota.Acquire(context.Background(), 101)
	fmt.Println("101:", err)
	// Output:
	// 60: true
	// 60 more: false
	// left: 40
	// 101: this cost can never pass: n 101: want at most 100, the capacity
}

func ExampleTokenQueue() {
	tokens, err := pacer.NewTokenQueue(pacer.TokenQueueOptions{
		Rate:      pacer.Rate{Permits: 10, Per: time.Hour},
		Capacity:  3,
		StartFull: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()

	for i := range 4 {
		fmt.Println("consumer", i+1, tokens.TryAcquire(1, 0))
	}
	// Output:
	// consumer 1 true
	// consumer 2 true
	// consumer 3 true
	// consumer 4 false
}
