package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/pacer"
)

// A reservation returns the time to go; the caller waits by itself.
func ExampleReservation() {
	calls, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.PerSecond(100), MaxBurst: pacer.NoBurst})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		r := calls.Reserve(1)
		if !r.OK() {
			fmt.Println(r.Err())
			return
		}
		time.Sleep(r.Delay())
		fmt.Println("call", i+1)
	}
	// Output:
	// call 1
	// call 2
	// call 3
}

// A reservation that isn't wanted any more gives its time back.
func ExampleReservation_Cancel() {
	exports, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.Rate{Permits: 6, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	exports.Reserve(1)
	large := exports.Reserve(12)
	fmt.Println("in", large.Delay().Round(time.Minute))
	large.Cancel()
	fmt.Println("in", exports.Reserve(1).Delay().Round(time.Minute))
	// Output:
	// in 10m0s
	// in 10m0s
}

// Code that takes a Pacer works with any of them.
func ExamplePacer() {
	fetch := func(p pacer.Pacer, pages int) error {
		for i := range pages {
			if _, err := p.Acquire(context.Background(), 1); err != nil {
				return err
			}
			fmt.Println("page", i+1)
		}
		return nil
	}
	calls, err := pacer.NewAllowance(pacer.AllowanceOptions{Rate: pacer.Rate{Permits: 100, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fetch(calls, 2))
	// Output:
	// page 1
	// page 2
	// <nil>
}

func ExampleWarmingUp_Reserve() {
	requests, err := pacer.NewWarmingUp(pacer.WarmingUpOptions{
		Rate:   pacer.Rate{Permits: 60, Per: time.Hour},
		WarmUp: 4 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	requests.Reserve(1)
	fmt.Println("in", requests.Reserve(1).Delay().Round(time.Minute))
	// Output: in 3m0s
}

// The pacer stays as warm as it is: here, at the end of its warm-up.
func ExampleWarmingUp_SetRate() {
	requests, err := pacer.NewWarmingUp(pacer.WarmingUpOptions{
		Rate:   pacer.Rate{Permits: 60, Per: time.Hour},
		WarmUp: 4 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	requests.Reserve(120)
	if err := requests.SetRate(pacer.Rate{Permits: 6, Per: time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		fmt.Println("in", requests.Reserve(1).Delay().Round(time.Minute))
	}
	// Output:
	// in 4h0m0s
	// in 4h10m0s
}

// A caller that finds too few permits waits for a later period, unless its deadline comes first.
func ExampleAllowance_Acquire() {
	quota, err := pacer.NewAllowance(pacer.AllowanceOptions{Rate: pacer.Rate{Permits: 100, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range []int64{60, 60, 40} {
		_, err := quota.Acquire(ctx, n)
		fmt.Println(n, err == nil, errors.Is(err, pacer.ErrDeadline))
	}
	// Output:
	// 60 true false
	// 60 false true
	// 40 true false
}

func ExampleAllowance_Reserve() {
	quota, err := pacer.NewAllowance(pacer.AllowanceOptions{Rate: pacer.Rate{Permits: 100, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		fmt.Println("60 in", quota.Reserve(60).Delay().Round(time.Minute))
	}
	// Output:
	// 60 in 0s
	// 60 in 1h0m0s
	// 60 in 2h0m0s
}

// Permits already taken stay taken.
func ExampleAllowance_SetRate() {
	quota, err := pacer.NewAllowance(pacer.AllowanceOptions{Rate: pacer.Rate{Permits: 100, Per: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	quota.TryAcquire(60, 0)
	if err := quota.SetRate(pacer.Rate{Permits: 150, Per: time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(quota.Rate(), "with", quota.Available(), "left")
	// Output: 150 per 1h0m0s with 90 left
}

func ExampleRate() {
	fmt.Println(pacer.Rate{Permits: 7, Per: time.Hour})
	// Output: 7 per 1h0m0s
}

// An InputError describes an invalid value and a valid one.
func ExampleInputError() {
	_, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.Rate{Permits: 5}})
	var input *pacer.InputError
	if errors.As(err, &input) {
		fmt.Println(input.Field, "is", input.Value)
		fmt.Println("want", input.Want)
	}
	fmt.Println(errors.Is(err, pacer.ErrInvalidOption))
	// Output:
	// Rate.Per is 0s
	// want a positive duration, such as time.Second
	// true
}

func ExamplePerSecond() {
	fmt.Println(pacer.PerSecond(300))
	// Output: 300 per 1s
}
