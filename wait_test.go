package headgate_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/limittest"
)

// waits runs do in a bubble where time passes only when everybody waits.
func waits(t *testing.T, do func(t *testing.T, l headgate.Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { do(t, stepstore.New(time.Now)) })
}

func checkOf(limit string, n int64) headgate.Check {
	return headgate.Check{Key: "alice", Limit: headgate.MustParseLimit(limit), Cost: n}
}

func remaining(t *testing.T, l headgate.Limiter, c headgate.Check) int64 {
	t.Helper()
	d, err := l.Peek(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func TestWaitUntilAllowed(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		start := time.Now()
		for i := range 15 {
			if err := headgate.Wait(context.Background(), l, checkOf("10/s", 1)); err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(max(0, i-9)*100) * time.Millisecond; time.Since(start) != want {
				t.Fatalf("request %d passed after %v, want %v", i, time.Since(start), want)
			}
		}
	})
}

func TestWaitForTheDelayOfALeakyBucket(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		start := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		passed := make(map[time.Duration]int)
		for range 5 {
			all.Go(func() {
				if err := headgate.Wait(context.Background(), l, checkOf("10/s leaky-bucket burst 5", 1)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				passed[time.Since(start)]++
			})
		}
		all.Wait()
		for i := range 5 {
			at := time.Duration(100*i) * time.Millisecond
			if got := passed[at]; got != 1 {
				t.Errorf("%d passed at %v, want 1", got, at)
			}
		}
	})
}

func TestWaitGivesUpAtOnceWhenTheDeadlineIsTooNear(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		c := checkOf("10/s", 10)
		if err := headgate.Wait(context.Background(), l, c); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second-time.Microsecond)
		defer cancel()
		if err := headgate.Wait(ctx, l, c); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want %v at once", err, time.Since(start), context.DeadlineExceeded)
		}
		ctx, cancel = context.WithTimeout(context.Background(), time.Second+time.Microsecond)
		defer cancel()
		if err := headgate.Wait(ctx, l, c); err != nil {
			t.Errorf("with time enough: %v", err)
		}
	})
}

func TestWaitGivesBackWhatItCannotDelay(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		c := checkOf("10/s leaky-bucket", 4)
		if err := headgate.Wait(context.Background(), l, c); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := headgate.Wait(ctx, l, c); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want %v at once", err, time.Since(start), context.DeadlineExceeded)
		}
		if got := remaining(t, l, c); got != 6 {
			t.Errorf("%d remaining, want 6", got)
		}
	})
}

// Waiters that give up before their turn return all of their units, however long they have waited.
func TestWaitReturnsTheUnitsOfThoseWhoGiveUp(t *testing.T) {
	for _, after := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		waits(t, func(t *testing.T, l headgate.Limiter) {
			c := checkOf("10/s leaky-bucket burst 20", 1)
			var all sync.WaitGroup
			for i := range 15 { // their turns are at 0, 100 ms, … 1.4 s; those from 600 ms on give up
				ctx, cancel := context.WithCancel(context.Background())
				if i >= 6 {
					time.AfterFunc(after, cancel)
				}
				all.Go(func() {
					defer cancel()
					err := headgate.Wait(ctx, l, c)
					if gaveUp := errors.Is(err, context.Canceled); gaveUp != (i >= 6) || err != nil && !gaveUp {
						t.Errorf("waiter %d: got %v", i, err)
					}
				})
				synctest.Wait()
			}
			time.Sleep(after)
			synctest.Wait()
			d, err := l.Take(context.Background(), c)
			if want := 600*time.Millisecond - after; err != nil || d.Delay != want {
				t.Errorf("after %v: the next is held for %v, %v; want %v", after, d.Delay, err, want)
			}
			all.Wait()
		})
	}
}

func TestWaitIsCancelled(t *testing.T) {
	for _, limit := range []string{"10/m", "10/m leaky-bucket burst 20"} { // while waiting to be allowed, and to be let go
		waits(t, func(t *testing.T, l headgate.Limiter) {
			c := checkOf(limit, 10)
			if err := headgate.Wait(context.Background(), l, c); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			if err := headgate.Wait(ctx, l, c); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
				t.Errorf("%s: got %v after %v, want %v after 1s", limit, err, time.Since(start), context.Canceled)
			}
			if err := headgate.Wait(ctx, l, c); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: a context that is over: got %v", limit, err)
			}
		})
	}
}

func TestWaitRefuses(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		var none context.Context
		if err := headgate.Wait(none, l, checkOf("10/s", 1)); !errors.Is(err, headgate.ErrNilContext) {
			t.Errorf("no context: got %v", err)
		}
		err := headgate.Wait(context.Background(), l, checkOf("10/s", 11))
		if !errors.Is(err, headgate.ErrNever) || !strings.Contains(err.Error(), `"alice": cost 11 of a limit of 10`) {
			t.Errorf("a cost above the limit: got %v", err)
		}
		if err := headgate.Wait(context.Background(), l, checkOf("10/s", -1)); !errors.Is(err, headgate.ErrInvalidCheck) {
			t.Errorf("a cost below zero: got %v", err)
		}
		c := checkOf("10 concurrent", 1)
		if err := headgate.Wait(context.Background(), l, c); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("concurrency: got %v", err)
		}
		if got := remaining(t, l, c); got != 10 {
			t.Errorf("concurrency: %d remaining, want 10", got)
		}
	})
}

// TestWaitersShareFairlyEnough lets many wait on one key: all get through, at the rate.
func TestWaitersShareFairlyEnough(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		start := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := headgate.Wait(context.Background(), l, checkOf("10/s", 1)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := time.Since(start); got != 4*time.Second {
			t.Errorf("50 waiters took %v, want 4s", got)
		}
	})
}

// failing is a limiter that allows with a delay and then cannot take back.
type failing struct{ headgate.Limiter }

var errBroken = errors.New("broken")

func (failing) Give(context.Context, headgate.Check, headgate.Receipt) error { return errBroken }

func TestWaitReportsARefundThatFails(t *testing.T) {
	waits(t, func(t *testing.T, l headgate.Limiter) {
		c := checkOf("1/m leaky-bucket burst 2", 1)
		if err := headgate.Wait(context.Background(), l, c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := headgate.Wait(ctx, failing{l}, c)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBroken) {
			t.Errorf("got %v, want both errors", err)
		}
	})
}

func TestWaitDoesNotSpinWithoutRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := limittest.NewRecorder(limittest.Denying(0))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := headgate.Wait(ctx, recorder, checkOf("10/s", 1))
		if n := len(recorder.Calls()); !errors.Is(err, context.DeadlineExceeded) || n > 101 {
			t.Errorf("got %v after %d attempts in 100 ms, want %v after at most 101", err, n, context.DeadlineExceeded)
		}
	})
}
