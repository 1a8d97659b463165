package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

func TestWaiterLeavesWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{slow: 5 * time.Millisecond})
		g := newGuard(t, f, Options{})
		c := check("a/1", "1/h")
		var all sync.WaitGroup
		all.Go(func() { take(t, g, c) })
		synctest.Wait()
		for range 10 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Millisecond)
				defer cancel()
				if got := took(func() {
					if _, err := g.Take(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want the caller's deadline", err)
					}
				}); got != 3*time.Millisecond {
					t.Errorf("took %v, want 3 ms", got)
				}
			})
		}
		all.Go(func() {
			if d := take(t, g, c); d.Allowed { // the others did not take its turn with them
				t.Errorf("got %+v, want denied", d)
			}
		})
		all.Wait()
		if got := f.calls.Load(); got != 2 {
			t.Errorf("%d calls, want 2", got)
		}
	})
}

func TestOpenCircuitEndsAllWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		g := newGuard(t, f, Options{})
		var all sync.WaitGroup
		hot := check("a/hot", "1/h")
		all.Go(func() { take(t, g, hot) })
		time.Sleep(5 * time.Millisecond)
		for range 100 {
			all.Go(func() {
				if got := took(func() { take(t, g, hot) }); got != 2*time.Millisecond {
					t.Errorf("took %v, want 2 ms: until the circuit opened", got)
				}
			})
		}
		time.Sleep(2 * time.Millisecond)
		f.breaks("a", fault{err: errRefused})
		for i := range tripInRow {
			take(t, g, check(fmt.Sprint("a/", i), "10/s"))
		}
		all.Wait()
	})
}

func TestWaitersOfAHungStoreAreDegradedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		g := newGuard(t, f, Options{})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if got := took(func() {
					if d := take(t, g, check("a/1", "1/h")); !d.Degraded {
						t.Errorf("got %+v, want degraded", d)
					}
				}); got > DefaultDeadline {
					t.Errorf("took %v, want %v at most", got, DefaultDeadline)
				}
			})
		}
		all.Wait()
		if got := f.calls.Load(); got > tripInRow {
			t.Errorf("%d calls of a store that hangs", got)
		}
	})
}

// A store that is slow but works is asked rather than that waiters are let pass.
func TestWaitersOfASlowStoreCallIt(t *testing.T) {
	for _, slow := range []time.Duration{2 * time.Millisecond, 6 * time.Millisecond, 9 * time.Millisecond, 15 * time.Millisecond} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("a", fault{slow: slow})
			g := newGuard(t, f, Options{})
			take(t, g, check("a/other", "10/s")) // it is known how slow it is
			var all sync.WaitGroup
			var passed atomic.Int64
			for i := range 20 { // costs that tell nothing about each other
				all.Go(func() {
					got := took(func() {
						if d := take(t, g, costing(check("a/1", "40/h sliding-log"), int64(21+i))); d.Degraded {
							t.Errorf("%v: got %+v, want exact", slow, d)
						} else if d.Allowed {
							passed.Add(1)
						}
					})
					if got > DefaultDeadline {
						t.Errorf("%v: took %v, want %v at most", slow, got, DefaultDeadline)
					}
				})
			}
			all.Wait()
			if passed.Load() != 1 {
				t.Errorf("%v: %d passed, want 1", slow, passed.Load())
			}
			if g.Stats().WaitsSkipped == 0 {
				t.Errorf("%v: nobody was let through, want those who had waited long enough", slow)
			}
		})
	}
}

// The time that a caller waits for others is part of its deadline, whatever happens to the store.
func TestCallsEndAtTheDeadline(t *testing.T) {
	t.Parallel()
	var seeds uint64 = max(2, 6/racing.Slower)
	for seed := range seeds {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, seed))
			f := newFake(t, nil)
			g := newGuard(t, shardedFake{f}, Options{})
			limits := []string{"1/h", "5/s", "100/s burst 3", "40/h sliding-log", "7/s", "3 concurrent"}
			start := time.Now()
			const lasts = 2 * time.Second
			var all sync.WaitGroup
			for i := range admission.MinActive { // no more, so that none is queued
				rng := rand.New(rand.NewPCG(2, seed<<32+uint64(i)))
				all.Go(func() {
					for time.Since(start) < lasts {
						n := rng.IntN(len(limits))
						c := costing(check(fmt.Sprint("a/", n), limits[n]), int64(1+rng.IntN(2)))
						if got := took(func() { take(t, g, c) }); got > DefaultDeadline {
							t.Errorf("seed %d: %s took %v, want %v at most", seed, c.Limit, got, DefaultDeadline)
						}
						time.Sleep(time.Duration(rng.IntN(10_000)) * time.Microsecond)
					}
				})
			}
			for time.Since(start) < lasts {
				f.breaks("a", []fault{
					{slow: 200 * time.Microsecond}, {slow: 5 * time.Millisecond}, {slow: 12 * time.Millisecond}, {hangs: true}, {err: errRefused},
				}[rng.IntN(5)])
				time.Sleep(time.Duration(rng.IntN(100_000)) * time.Microsecond)
			}
			all.Wait()
			wantNothingLeft(t, g)
		})
	}
}

// A call that had only what a wait has left of the deadline says nothing about the store when it runs out.
func TestTimeoutsAfterAWaitAreNoFailures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		f.breaks("a", fault{slow: 2 * time.Millisecond})
		take(t, g, check("a/other", "10/s"))
		f.breaks("a", fault{slow: 12 * time.Millisecond})
		var all sync.WaitGroup
		for i := range 20 { // costs that tell nothing about each other
			all.Go(func() { take(t, g, costing(check("a/1", "40/h sliding-log"), int64(21+i))) })
		}
		all.Wait()
		if isOpen(g, "") || g.Stats().Timeouts < tripInRow {
			t.Errorf("open %v, %+v: want the circuit closed although %d calls and more ran out of time", isOpen(g, ""), g.Stats(), tripInRow)
		}
	})
}
