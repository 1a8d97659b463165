package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

func TestCallThatHangsEndsAtTheDeadline(t *testing.T) {
	for _, deadline := range []time.Duration{0, 7 * time.Millisecond} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("", fault{hangs: true})
			g := newGuard(t, f, Options{Deadline: deadline})
			want := deadline
			if want == 0 {
				want = DefaultDeadline
			}
			f.breaks("a", fault{hangs: true})
			var d headgate.Decision
			if got := took(func() { d = take(t, g, check("a/1", "10/s")) }); got != want {
				t.Errorf("took %v, want %v", got, want)
			}
			if !d.Allowed || !d.Degraded {
				t.Errorf("got %+v, want allowed and degraded", d)
			}
			wantStats(t, g, "calls", f.calls.Load(), 1) // never sent again
			wantStats(t, g, "timeouts", g.Stats().Timeouts, 1)
			wantStats(t, g, "failures", g.Stats().Failures, 1)
		})
	}
}

func TestCallerContextIsNoStoreFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		g := newGuard(t, f, Options{})
		for i := range 2 * tripInRow {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			want := context.DeadlineExceeded
			if i%2 == 0 {
				want = context.Canceled
				time.AfterFunc(5*time.Millisecond, cancel)
				ctx = context.WithoutCancel(ctx)
				ctx, cancel = context.WithCancel(ctx)
				time.AfterFunc(5*time.Millisecond, cancel)
			}
			for name, do := range map[string]func() error{
				"Take": func() error {
					_, err := g.Take(ctx, check("a/1", "10/s"))
					return err
				},
				"TakeAll": func() error {
					ds, err := g.TakeAll(ctx, []headgate.Check{check("a/1", "10/s"), check("a/2", "10/s")}, nil)
					if len(ds) > 0 {
						t.Errorf("got decisions %+v beside an error", ds)
					}
					return err
				},
				"Charge": func() error { _, err := g.Charge(ctx, check("a/1", "10/s")); return err },
				"Give": func() error {
					return g.Give(ctx, check("a/1", "10/s"), headgate.Receipt{At: 1, Units: 1})
				},
				"Reset": func() error { return g.Reset(ctx, headgate.Check{Key: "a/1"}) },
			} {
				if err := do(); !errors.Is(err, want) {
					t.Errorf("%s: got error %v, want %v", name, err, want)
				}
			}
			cancel()
		}
		if s := g.Stats(); s.Failures != 0 || s.Open != 0 || isOpen(g, "a") {
			t.Errorf("got %+v, want no failures", s)
		}
	})
}

func TestCallerErrorsAreNoFailures(t *testing.T) {
	for _, fails := range []error{
		headgate.ErrInvalidLimit, headgate.ErrInvalidCheck, headgate.ErrUnsupported, headgate.ErrNilContext,
		headgate.ErrClosed, headgate.ErrNever, &headgate.InputError{Err: errRefused},
		fmt.Errorf("wrapped: %w", headgate.ErrUnsupported),
	} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("a", fault{err: fails})
			g := newGuard(t, f, Options{})
			for range 2 * tripCalls {
				if d, err := g.Take(context.Background(), check("a/1", "10/s")); !errors.Is(err, fails) || d != (headgate.Decision{}) {
					t.Fatalf("got %+v and error %v, want %v", d, err, fails)
				}
			}
			if s := g.Stats(); s.Failures != 0 || isOpen(g, "a") {
				t.Errorf("%v: got %+v, want no failures", fails, s)
			}
		})
	}
}

func TestFullStoreIsDegradedButNotDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{err: fmt.Errorf("oom: %w", headgate.ErrFull)})
		var told atomic.Int64
		g := newGuard(t, f, Options{OnEvent: func(e Event) {
			if e.Kind == Refusing {
				told.Add(1)
			}
		}})
		for range 2 * tripCalls {
			if d := take(t, g, under(check("a/1", "10/s"), headgate.Closed)); d.Allowed || !d.Degraded {
				t.Fatalf("got %+v, want denied and degraded", d)
			}
		}
		synctest.Wait()
		if isOpen(g, "a") {
			t.Error("the circuit is open, want closed: other keys may have their place")
		}
		wantStats(t, g, "failures", g.Stats().Failures, 2*tripCalls)
		wantStats(t, g, "events", told.Load(), 1)
	})
}

func TestOnlyCallsInFlightWaitForAStoppedStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		g := newGuard(t, f, Options{})
		const callers = 1000
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				if got := took(func() { take(t, g, check(fmt.Sprint("a/", i), "10/s")) }); got != DefaultDeadline {
					t.Errorf("took %v, want %v", got, DefaultDeadline)
				}
			})
		}
		all.Wait()
		for i := range callers {
			if got := took(func() { take(t, g, check(fmt.Sprint("a/", i), "10/s")) }); got != 0 {
				t.Fatalf("took %v with the circuit open, want no time", got)
			}
		}
		wantStats(t, g, "calls", f.calls.Load(), admission.MinActive)
		wantStats(t, g, "degraded", g.Stats().Open, 2*callers)
	})
}

func TestGoroutinesStayFlatWhileTheStoreHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		g := newGuard(t, f, Options{})
		before := runtime.NumGoroutine()
		var all sync.WaitGroup
		const callers = 200
		for i := range callers {
			all.Go(func() {
				for range 10 {
					take(t, g, check(fmt.Sprint("a/", i), "10/s"))
				}
			})
		}
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got > callers+1 {
			t.Errorf("%d goroutines more for %d callers, want theirs only", got, callers)
		}
		all.Wait()
	})
}
