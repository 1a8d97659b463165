package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A busyStore decides one check at a time, like a server with one processor. Others wait.
type busyStore struct {
	*fakeStore
	turn chan struct{}
	each time.Duration
	// Now and then it stalls.
	done  *atomic.Int64
	every int64
	stall time.Duration
}

func newBusy(t testing.TB, each time.Duration) busyStore {
	t.Helper()
	return busyStore{fakeStore: newFake(t, nil), turn: make(chan struct{}, 1), each: each, done: new(atomic.Int64)}
}

func (s busyStore) work(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(s.each)
	if s.every > 0 && s.done.Add(1)%s.every == 0 {
		time.Sleep(s.stall)
	}
	<-s.turn
	return nil
}

func (s busyStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := s.work(ctx); err != nil {
		return headgate.Decision{}, err
	}
	return s.fakeStore.Take(ctx, c)
}

func (s busyStore) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := s.work(ctx); err != nil {
		return dst, err
	}
	return s.fakeStore.TakeAll(ctx, checks, dst)
}

func (s busyStore) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := s.work(ctx); err != nil {
		return headgate.Decision{}, err
	}
	return s.fakeStore.Charge(ctx, c)
}

// Grant takes all that is wanted.
func (s busyStore) Grant(ctx context.Context, c headgate.Check, want, _ int64) (headgate.Decision, error) {
	if err := s.work(ctx); err != nil {
		return headgate.Decision{}, err
	}
	c.Cost = want
	return s.fakeStore.Take(ctx, c)
}

// flood is the result of many callers, each of which calls again as soon as it has a decision.
type flood struct {
	decided, degraded, refused atomic.Int64
	longest                    atomic.Int64
}

func (f *flood) run(t *testing.T, callers int, lasts time.Duration, ask func(caller, n int) ([]headgate.Decision, error)) {
	t.Helper()
	start := time.Now()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := 0; time.Since(start) < lasts; n++ {
				var ds []headgate.Decision
				var err error
				got := took(func() { ds, err = ask(i, n) })
				switch {
				case errors.Is(err, headgate.ErrOverloaded):
					f.refused.Add(1)
					time.Sleep(time.Second) // the RetryAfter of an overload
					continue
				case err != nil:
					t.Errorf("caller %d: %v", i, err)
					return
				}
				f.decided.Add(1)
				for old := f.longest.Load(); int64(got) > old && !f.longest.CompareAndSwap(old, int64(got)); old = f.longest.Load() {
				}
				for _, d := range ds {
					if d.Degraded {
						f.degraded.Add(1)
						time.Sleep(time.Millisecond) // it may have taken no time
					}
				}
			}
		})
	}
	all.Wait()
}

// A flood of requests must not switch limits off: the store works, but cannot decide all requests within the
// deadline.
func TestFloodIsDecidedExactly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		callers int
		by      string
	}{
		{1000, "Take"},
		{1000, "TakeAll"},
		{1000, "Charge"},
		{1000, "Grant"},
		{5000, "Take"},
		{5000, "Charge"},
		{5000, "Grant"},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			if racing.Slower > 1 && (tt.callers > 1000 || tt.by == "Charge") {
				t.Skip("races show with fewer callers, and the run without the race detector has all")
			}
			inBubble(t, func(t *testing.T) {
				const each, lasts = 80 * time.Microsecond, 2 * time.Second
				s := newBusy(t, each)
				g := newGuard(t, s, Options{})
				over := check("over", "3/h")
				for range 3 {
					take(t, g, over)
				}
				var passed atomic.Int64
				var f flood
				f.run(t, tt.callers, lasts, func(caller, n int) ([]headgate.Decision, error) {
					own := check(fmt.Sprint(caller, "/", n), "3/h")
					switch {
					case caller == 0:
						time.Sleep(10 * time.Millisecond) // most of its denials are remembered, and take no time
						d, err := g.Take(context.Background(), over)
						if d.Allowed {
							passed.Add(1)
						}
						return []headgate.Decision{d}, err
					case tt.by == "TakeAll":
						return g.TakeAll(context.Background(), []headgate.Check{own, check(fmt.Sprint("too ", caller), "1000000/s")}, nil)
					case tt.by == "Charge":
						d, err := g.Charge(context.Background(), own)
						return []headgate.Decision{d}, err
					case tt.by == "Grant":
						d, err := g.Grant(context.Background(), own, 1, 1)
						return []headgate.Decision{d}, err
					default:
						d, err := g.Take(context.Background(), own)
						return []headgate.Decision{d}, err
					}
				})
				stats := g.Stats()
				t.Logf("%d decided, %d refused, longest %v; %+v", f.decided.Load(), f.refused.Load(), time.Duration(f.longest.Load()), stats)
				if f.degraded.Load() > 0 || stats.Failures > 0 || isOpen(g, "") {
					t.Errorf("%d decisions degraded, %d failures, want none", f.degraded.Load(), stats.Failures)
				}
				if got := passed.Load(); got > 0 {
					t.Errorf("the client over its limit passed %d times", got)
				}
				if got, want := f.decided.Load(), int64(lasts/each)*9/10; got < want {
					t.Errorf("%d decided, want at least %d: all that the store can do", got, want)
				}
				if got, most := time.Duration(f.longest.Load()), (queueDeadlines+2)*DefaultDeadline; got > most {
					t.Errorf("the longest decision took %v, want at most %v", got, most)
				}
				if got, want := f.refused.Load() > 0, tt.callers > 1000; got != want {
					t.Errorf("%d refused of %d callers", f.refused.Load(), tt.callers)
				}
				if stats.Overloaded != f.refused.Load() || stats.Queued == 0 {
					t.Errorf("got %+v, want %d overloaded and some queued", stats, f.refused.Load())
				}
			})
		})
	}
}

// While requests are queued, a store that does not run for longer than the deadline is not down.
func TestFloodSurvivesAStalledStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newBusy(t, 80*time.Microsecond)
		s.every, s.stall = 5000, 50*time.Millisecond
		g := newGuard(t, s, Options{})
		var f flood
		f.run(t, 1000, 2*time.Second, func(caller, n int) ([]headgate.Decision, error) {
			d, err := g.Take(context.Background(), check(fmt.Sprint(caller, "/", n), "3/h"))
			return []headgate.Decision{d}, err
		})
		if got := s.done.Load() / s.every; got < 3 {
			t.Errorf("the store stalled %d times, want 3 or more", got)
		}
		if stats := g.Stats(); f.degraded.Load() > 0 || stats.Failures > 0 {
			t.Errorf("%d decisions degraded, %d failures, want none", f.degraded.Load(), stats.Failures)
		}
	})
}

// hold keeps the maximum number of decisions active, and returns a function that ends them.
func hold(t *testing.T, g *Guard, f *fakeStore) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.breaks("", fault{slow: time.Hour})
	var all sync.WaitGroup
	for i := range admission.MinActive {
		all.Go(func() {
			if _, err := g.Take(ctx, check(fmt.Sprint("/held", i), "10/s")); !errors.Is(err, context.Canceled) {
				t.Errorf("held %d: %v, want it canceled", i, err)
			}
		})
	}
	synctest.Wait()
	f.breaks("", fault{})
	return func() {
		cancel()
		all.Wait()
	}
}

func TestQueuedRequestLeavesWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{Deadline: time.Second})
		release := hold(t, g, f)
		defer release()
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				got := took(func() {
					if _, err := g.Take(ctx, check("/own", "10/s")); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want the caller's deadline", err)
					}
				})
				if got > 25*time.Millisecond+10*time.Millisecond {
					t.Errorf("took %v, want 25 ms", got)
				}
			})
			all.Go(func() { // between those who leave
				if d := take(t, g, check("/stays", "10/s")); d.Degraded {
					t.Errorf("got %+v, want it exact", d)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		release()
		all.Wait()
	})
}

func TestQueueIsEmptiedWhenTheCircuitOpens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("", fault{hangs: true})
		g := newGuard(t, f, Options{})
		var all sync.WaitGroup
		for i := range 4 * admission.MinActive {
			all.Go(func() {
				var d headgate.Decision
				if got := took(func() { d = take(t, g, check(fmt.Sprint("/", i), "10/s")) }); got > DefaultDeadline || !d.Degraded {
					t.Errorf("got %+v after %v, want it degraded at the deadline", d, got)
				}
			})
		}
		all.Wait()
		if got := g.shards.only.queue.Waiting(); got != 0 {
			t.Errorf("%d are still queued", got)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{Deadline: time.Second})
		release := hold(t, g, f)
		var all sync.WaitGroup
		for range admission.MaxQueued {
			all.Go(func() { take(t, g, check("/own", "1000000/s")) })
		}
		synctest.Wait()
		if d, err := g.Take(context.Background(), check("/more", "10/s")); !errors.Is(err, headgate.ErrOverloaded) {
			t.Errorf("got %+v and %v, want ErrOverloaded", d, err)
		}
		release()
		all.Wait()
	})
}

// A distant store is not overloaded: the limit grows while calls take no longer than the quickest.
func TestQueueLimitGrowsForADistantStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const far, callers, lasts = 8 * time.Millisecond, 600, time.Second
		f := newFake(t, nil)
		f.breaks("", fault{slow: far})
		g := newGuard(t, f, Options{})
		var all flood
		all.run(t, callers, lasts, func(caller, n int) ([]headgate.Decision, error) {
			d, err := g.Take(context.Background(), check(fmt.Sprint("/", caller, "-", n), "10/s"))
			return []headgate.Decision{d}, err
		})
		if got, want := all.decided.Load(), int64(callers)*int64(lasts/far)*8/10; got < want {
			t.Errorf("%d decided, want at least %d: as many as without a limit", got, want)
		}
		if all.refused.Load()+all.degraded.Load() > 0 {
			t.Errorf("%d refused, %d degraded, want none", all.refused.Load(), all.degraded.Load())
		}
	})
}
