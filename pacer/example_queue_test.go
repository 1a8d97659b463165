package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/pacer"
)

// Mails come in bursts and go out one every ten milliseconds, in the order in which they came.
func ExampleQueue() {
	mails, err := pacer.NewQueue(pacer.QueueOptions{Rate: pacer.PerSecond(100), Capacity: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mails.Close()

	var wg sync.WaitGroup
	for i := range 3 {
		sent, err := mails.Submit(context.Background(), 1, func(context.Context) error {
			fmt.Println("mail", i+1)
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		wg.Go(func() { <-sent })
	}
	wg.Wait()
	fmt.Println("waiting:", mails.Waiting())
	// Output:
	// mail 1
	// mail 2
	// mail 3
	// waiting: 0
}

func ExampleQueue_Acquire() {
	mails, err := pacer.NewQueue(pacer.QueueOptions{Rate: pacer.PerSecond(1000), Capacity: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mails.Close()

	for _, size := range []int64{1, 20, 1, 101} {
		_, err := mails.Acquire(context.Background(), size)
		switch {
		case errors.Is(err, pacer.ErrNever):
			fmt.Println(size, "is too large for this queue")
		case err == nil:
			fmt.Println(size, "sent")
		}
	}
	// Output:
	// 1 sent
	// 20 sent
	// 1 sent
	// 101 is too large for this queue
}

// Work is handed over and runs in order, and what doesn't fit is refused at once.
func ExampleQueue_Submit() {
	mails, err := pacer.NewQueue(pacer.QueueOptions{Rate: pacer.PerSecond(100), Capacity: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mails.Close()

	ctx := context.Background()
	started := make(chan struct{})
	send := func(name string) func(context.Context) error {
		return func(context.Context) error {
			<-started
			fmt.Println("send", name)
			return nil
		}
	}
	var last <-chan error
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		sent, err := mails.Submit(ctx, 1, send(name))
		if errors.Is(err, pacer.ErrQueueFull) {
			fmt.Println("no room for", name)
			continue
		}
		last = sent
	}
	close(started)
	fmt.Println("error:", <-last)
	// Output:
	// no room for five
	// send one
	// send two
	// send three
	// send four
	// error: <nil>
}

// A caller that would wait too long, or does not fit, gets the result at once.
func ExampleQueue_TryAcquire() {
	mails, err := pacer.NewQueue(pacer.QueueOptions{Rate: pacer.Rate{Permits: 60, Per: time.Hour}, Capacity: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mails.Close()

	fmt.Println("the first:", mails.TryAcquire(1, 0))
	fmt.Println("within a second:", mails.TryAcquire(1, time.Second))
	mails.Reserve(10)
	fmt.Println("without room:", mails.TryAcquire(1, 24*time.Hour))
	// Output:
	// the first: true
	// within a second: false
	// without room: false
}

// Until its time has come, what is reserved takes up room.
func ExampleQueue_Reserve() {
	mails, err := pacer.NewQueue(pacer.QueueOptions{Rate: pacer.Rate{Permits: 60, Per: time.Hour}, Capacity: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mails.Close()

	for _, size := range []int64{5, 8, 8} {
		r := mails.Reserve(size)
		if errors.Is(r.Err(), pacer.ErrQueueFull) {
			fmt.Println("no room for", size)
			continue
		}
		fmt.Printf("%d in %v\n", size, r.Delay().Round(time.Minute))
	}
	// Output:
	// 5 in 0s
	// 8 in 5m0s
	// no room for 8
}

func ExampleTokenQueue_Acquire() {
	tokens, err := pacer.NewTokenQueue(pacer.TokenQueueOptions{Rate: pacer.PerSecond(1000), Capacity: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()

	// The queue is empty at first, so this waits until twenty have been made.
	if _, err := tokens.Acquire(context.Background(), 20); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("got 20")
	// Output: got 20
}

func ExampleTokenQueue_Reserve() {
	tokens, err := pacer.NewTokenQueue(pacer.TokenQueueOptions{
		Rate:      pacer.Rate{Permits: 60, Per: time.Hour},
		Capacity:  10,
		StartFull: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()

	for range 2 {
		fmt.Println("8 in", tokens.Reserve(8).Delay().Round(time.Minute))
	}
	// Output:
	// 8 in 0s
	// 8 in 6m0s
}

// Waiting callers are rejected.
func ExampleTokenQueue_Close() {
	tokens, err := pacer.NewTokenQueue(pacer.TokenQueueOptions{Rate: pacer.Rate{Permits: 1, Per: time.Hour}, Capacity: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	time.AfterFunc(10*time.Millisecond, tokens.Close)
	_, err = tokens.Acquire(context.Background(), 1)
	fmt.Println(err)
	// Output: limiter is closed
}
