package pacer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// caller is one goroutine of a scenario: it comes at an instant, asks for n, and may give up. Callers that come at
// different times come in that order.
type caller struct {
	at       time.Duration
	n        int64
	cancel   time.Duration // when its context is cancelled; 0 is never
	deadline time.Duration // when its context ends; 0 is never
	returns  time.Duration // when it is expected back
	err      error         // and with what
}

// play runs a scenario against a pacer that was made at instant 0, and returns when all callers are back. It runs in a
// synctest bubble: no time passes but that which callers wait.
func play(t *testing.T, acquire func(context.Context, int64) (time.Duration, error), callers []caller) {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range callers {
		wg.Go(func() {
			time.Sleep(c.at)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if c.deadline > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithDeadline(ctx, start.Add(c.deadline))
				defer stop()
			}
			if c.cancel > 0 {
				timer := time.AfterFunc(c.cancel-c.at, cancel)
				defer timer.Stop()
			}
			waited, err := acquire(ctx, c.n)
			back := time.Since(start)
			if back != c.returns || !errors.Is(err, c.err) {
				t.Errorf("caller %d, at %v for %d: back at %v with %v, want %v with %v", i+1, c.at, c.n, back, err, c.returns, c.err)
			}
			if want := c.returns - c.at; waited != want {
				t.Errorf("caller %d, at %v for %d: waited %v, want %v", i+1, c.at, c.n, waited, want)
			}
		})
	}
	wg.Wait()
}

// must returns what a constructor made.
func must[T any](t testing.TB, made T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func newBursty(t testing.TB, o BurstyOptions) *Bursty {
	t.Helper()
	made, err := NewBursty(o)
	return must(t, made, err)
}

func newWarmingUp(t testing.TB, o WarmingUpOptions) *WarmingUp {
	t.Helper()
	made, err := NewWarmingUp(o)
	return must(t, made, err)
}

func newAllowance(t testing.TB, r Rate) *Allowance {
	t.Helper()
	made, err := NewAllowance(AllowanceOptions{Rate: r})
	return must(t, made, err)
}

// newQueue returns a queue that is closed when the test ends.
func newQueue(t testing.TB, r Rate, capacity int64) *Queue {
	t.Helper()
	made, err := NewQueue(QueueOptions{Rate: r, Capacity: capacity})
	must(t, made, err)
	t.Cleanup(made.Close)
	return made
}

// newTokenQueue returns a queue that is closed when the test ends.
func newTokenQueue(t testing.TB, o TokenQueueOptions) *TokenQueue {
	t.Helper()
	made, err := NewTokenQueue(o)
	must(t, made, err)
	t.Cleanup(made.Close)
	return made
}

func TestBurstyCallersWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		burst   int64
		callers []caller
	}{
		{"in the order in which they come, whatever they want", 0, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 5, returns: 1 * time.Second},
			{at: 2, n: 1, returns: 1500 * ms},
			{at: 3, n: 50, returns: 1600 * ms},
			{at: 4, n: 1, returns: 6600 * ms},
		}},
		{"and move up when one in front gives up", 0, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 20, returns: 500 * ms, cancel: 500 * ms, err: context.Canceled},
			{at: 2, n: 1, returns: 1000 * ms},
			{at: 3, n: 1, returns: 1100 * ms},
		}},
		{"and move up when one in the middle gives up", 0, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 1, returns: 1000 * ms},
			{at: 2, n: 20, returns: 500 * ms, cancel: 500 * ms, err: context.Canceled},
			{at: 3, n: 1, returns: 1100 * ms},
		}},
		{"and one that gives up at the last gives nothing to those before", 0, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 1, returns: 1000 * ms},
			{at: 2, n: 20, returns: 999 * ms, cancel: 999 * ms, err: context.Canceled},
			{at: 1000 * ms, n: 1, returns: 1100 * ms},
		}},
		{"but not beyond a deadline", 0, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 20, deadline: time.Second - 1, returns: 1, err: ErrDeadline},
			{at: 2, n: 1, deadline: time.Second, returns: time.Second},
			{at: 3, n: 1, deadline: 1100*ms - 1, returns: 3, err: context.DeadlineExceeded},
			{at: 4, n: 1, returns: 1100 * ms},
		}},
		{"and a context that has ended takes nothing", 0, []caller{
			{at: 0, n: 10, deadline: 1, returns: 0},
			{at: 2 * time.Second, n: 20, deadline: time.Second, returns: 2 * time.Second, err: context.DeadlineExceeded},
			{at: 2 * time.Second, n: 10, returns: 2 * time.Second},
			{at: 2*time.Second + 1, n: 1, returns: 2*time.Second + 1},
		}},
		{"without burst too", NoBurst, []caller{
			{at: 0, n: 1, returns: 0},
			{at: 1, n: 1, returns: 100 * ms},
			{at: 2, n: 1, returns: 200 * ms},
			{at: 900 * ms, n: 1, returns: 900 * ms},
			{at: 900*ms + 1, n: 1, returns: 1000 * ms},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play(t, newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: c.burst}).Acquire, c.callers)
			})
		})
	}
}

func TestWarmingUpCallersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play(t, newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(2), WarmUp: 4 * time.Second}).Acquire, []caller{
			{at: 0, n: 4, returns: 0},
			{at: 1, n: 9, cancel: 1 * time.Second, returns: 1 * time.Second, err: context.Canceled},
			{at: 2, n: 1, returns: 4 * time.Second},
			{at: 3, n: 1, deadline: 4 * time.Second, returns: 3, err: ErrDeadline},
			{at: 4, n: 1, returns: 4500 * ms},
			// Idle from 5 s on, with two in store: one more after half a second.
			{at: 5500 * ms, n: 3, returns: 5500 * ms},
			{at: 5501 * ms, n: 1, returns: 7000 * ms},
		})
	})
}

func TestAllowanceCallersWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		callers []caller
	}{
		{"in the order in which they come, and none overtakes one who wants more", []caller{
			{at: 0, n: 8, returns: 0},
			{at: 1, n: 10, returns: time.Second},
			{at: 2, n: 1, returns: 2 * time.Second},
			{at: 3, n: 9, returns: 2 * time.Second},
			{at: 4, n: 1, returns: 3 * time.Second},
		}},
		{"and get what one in front leaves behind at once", []caller{
			{at: 0, n: 8, returns: 0},
			{at: 1, n: 10, cancel: 300 * ms, returns: 300 * ms, err: context.Canceled},
			{at: 2, n: 1, returns: 300 * ms},
			{at: 3, n: 2, returns: time.Second},
			{at: 400 * ms, n: 1, returns: time.Second},
		}},
		{"but not beyond a deadline", []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 6, returns: time.Second},
			{at: 2, n: 5, deadline: 2*time.Second - 1, returns: 2, err: ErrDeadline},
			{at: 3, n: 4, deadline: time.Second, returns: time.Second},
		}},
		{"and one who wants too much is told so", []caller{
			{at: 0, n: 11, returns: 0, err: ErrNever},
			{at: 1, n: 10, returns: 1},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newAllowance(t, PerSecond(10)).Acquire, c.callers) })
		})
	}
}

func TestTokenQueueCallersWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		full    bool
		callers []caller
	}{
		{"for tokens to be made, in order", false, []caller{
			{at: 0, n: 5, returns: 500 * ms},
			{at: 1, n: 10, returns: 1500 * ms},
			{at: 2, n: 1, returns: 1600 * ms},
			{at: 2*time.Second + 700*ms, n: 10, returns: 2*time.Second + 700*ms}, // full since 2.6 s
			{at: 2*time.Second + 750*ms, n: 1, returns: 2*time.Second + 800*ms},
		}},
		{"not at all while the queue is full", true, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 1, returns: 100 * ms},
		}},
		{"and get what one in front leaves behind at once", false, []caller{
			{at: 0, n: 10, cancel: 450 * ms, returns: 450 * ms, err: context.Canceled},
			{at: 1, n: 4, returns: 450 * ms},
			{at: 2, n: 1, returns: 500 * ms},
		}},
		{"but not beyond a deadline", false, []caller{
			{at: 0, n: 5, returns: 500 * ms},
			{at: 1, n: 5, deadline: 1000*ms - 1, returns: 1, err: ErrDeadline},
			{at: 2, n: 5, deadline: 1000 * ms, returns: 1000 * ms},
		}},
		{"and one who wants too much is told so", true, []caller{
			{at: 0, n: 11, returns: 0, err: ErrNever},
			{at: 1, n: 10, returns: 1},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play(t, newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10, StartFull: c.full}).Acquire, c.callers)
			})
		})
	}
}

func TestQueueCallersWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		callers []caller
	}{
		{"for what is before them to flow out", []caller{
			{at: 0, n: 5, returns: 0},
			{at: 1, n: 10, returns: 500 * ms},
			{at: 510 * ms, n: 1, returns: 1500 * ms},
			{at: 520 * ms, n: 1, returns: 1600 * ms},
			{at: 10 * time.Second, n: 1, returns: 10 * time.Second},
			{at: 10*time.Second + 1, n: 1, returns: 10*time.Second + 100*ms},
		}},
		{"while there is room", []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 6, returns: 1000 * ms},
			{at: 2, n: 5, returns: 2, err: ErrQueueFull},
			{at: 3, n: 4, returns: 1600 * ms},
			{at: 4, n: 1, returns: 4, err: ErrQueueFull},
			{at: 1000 * ms, n: 6, returns: 2000 * ms}, // the first six have gone
		}},
		{"and one that gives up makes room, and those behind it move up", []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 4, returns: 1000 * ms},
			{at: 2, n: 5, cancel: 300 * ms, returns: 300 * ms, err: context.Canceled},
			{at: 3, n: 1, returns: 1400 * ms},
			{at: 4, n: 1, returns: 4, err: ErrQueueFull},
			{at: 301 * ms, n: 5, returns: 1500 * ms},
			{at: 302 * ms, n: 1, returns: 302 * ms, err: ErrQueueFull},
		}},
		{"but not beyond a deadline", []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 1, deadline: time.Second - 1, returns: 1, err: ErrDeadline},
			{at: 2, n: 1, deadline: time.Second, returns: time.Second},
		}},
		{"and one that is too large for the queue is told so", []caller{
			{at: 0, n: 11, returns: 0, err: ErrNever},
			{at: 1, n: 10, returns: 1},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newQueue(t, PerSecond(10), 10).Acquire, c.callers) })
		})
	}
}
