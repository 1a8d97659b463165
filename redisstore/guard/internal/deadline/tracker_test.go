package deadline

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

const timeout = 20 * time.Millisecond

func newTracker() *Tracker { return NewTracker(clock.System, timeout, nil) }

// contexts returns the number of active contexts.
func (t *Tracker) contexts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.active)
}

func TestContextEndsAtItsDeadlineAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker()
		now := time.Now()
		long := tracker.Begin(context.Background(), "", now, now.Add(30*time.Millisecond))
		short := tracker.Begin(t.Context(), "", now, now.Add(7*time.Millisecond))
		if d, ok := short.Deadline(); !ok || !d.Equal(now.Add(7*time.Millisecond)) {
			t.Errorf("got deadline %v, %v", d, ok)
		}
		for _, one := range []struct {
			t    *Context
			want time.Duration
		}{{short, 7 * time.Millisecond}, {long, 30 * time.Millisecond}} {
			if err := one.t.Err(); err != nil {
				t.Errorf("got %v before its end", err)
			}
			<-one.t.Done()
			if got := time.Since(now); got != one.want {
				t.Errorf("ended after %v, want %v", got, one.want)
			}
			if err := one.t.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			one.t.End()
		}
		if n := tracker.contexts(); n != 0 {
			t.Errorf("%d contexts are active, want none", n)
		}
	})
}

func TestContextEndsSoonAfterItsCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker()
		ctx, cancel := context.WithCancel(context.Background())
		now := time.Now()
		own := tracker.Begin(ctx, "", now, now.Add(time.Hour))
		others := tracker.Begin(context.Background(), "", now, now.Add(time.Hour))
		time.Sleep(time.Minute + callerInterval/2)
		if err := own.Err(); err != nil {
			t.Errorf("got %v before its end", err)
		}
		cancel()
		given := time.Now()
		<-own.Done()
		if late := time.Since(given); late > callerInterval {
			t.Errorf("ended %v after its caller's context, want at most %v", late, callerInterval)
		}
		if err := own.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if err := others.Err(); err != nil {
			t.Errorf("the context of another call ended too: %v", err)
		}
		own.End()
		others.End()
	})
}

// A lateClock is a clock whose timers fire late.
type lateClock struct {
	clock.Clock
	late time.Duration
}

func (c lateClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return lateTimer{c.Clock.AfterFunc(d+c.late, f), c.late}
}

type lateTimer struct {
	clock.Timer
	late time.Duration
}

func (t lateTimer) Reset(d time.Duration) bool { return t.Timer.Reset(d + t.late) }

// A stall is noticed although no call is active, and before the late timer has fired.
func TestStallsAreNoticedDuringAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = timeout / checksPerDeadline // 2.5 ms
		tracker := NewTracker(lateClock{clock.System, 10 * time.Millisecond}, timeout, nil)
		want := func(stalled time.Duration) {
			t.Helper()
			if got := tracker.Stalled(); got != stalled {
				t.Errorf("got %v stalled, want %v", got, stalled)
			}
		}
		tracker.WatchStalls()
		time.Sleep(interval)
		want(0)
		time.Sleep(interval + 3*time.Millisecond)
		want(3 * time.Millisecond)
		time.Sleep(interval + 10*time.Millisecond) // until the timer fires
		synctest.Wait()
		want(13 * time.Millisecond)
		tracker.EndWatch()
		time.Sleep(time.Second) // the timer fires once more
		synctest.Wait()
		want(23 * time.Millisecond)
	})
}

func TestEndEndsDerivedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker()
		type key struct{}
		now := time.Now()
		own := tracker.Begin(context.WithValue(context.Background(), key{}, "value"), "", now, now.Add(time.Hour))
		child, cancel := context.WithTimeout(own, 2*time.Hour)
		defer cancel()
		if got := child.Value(key{}); got != "value" {
			t.Errorf("got value %v", got)
		}
		if d, _ := child.Deadline(); !d.Equal(now.Add(time.Hour)) {
			t.Errorf("got deadline %v, want that of its parent", d)
		}
		own.End()
		<-child.Done()
		if err := child.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if time.Since(now) > 0 {
			t.Errorf("it took %v, want no time", time.Since(now))
		}
	})
}

func TestEndedContextsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker()
		now := time.Now()
		stays := tracker.Begin(context.Background(), "", now, now.Add(time.Minute))
		for range 1000 {
			tracker.Begin(context.Background(), "", now, now.Add(time.Minute)).End()
		}
		if n := tracker.contexts(); n != 1 {
			t.Errorf("%d contexts are active, want 1", n)
		}
		if err := stays.Err(); err != nil {
			t.Errorf("the active context has ended: %v", err)
		}
		<-stays.Done()
		if got := time.Since(now); got != time.Minute {
			t.Errorf("the active context ended after %v, want %v", got, time.Minute)
		}
		if n := tracker.contexts(); n != 0 {
			t.Errorf("%d contexts are active, want none", n)
		}
	})
}

func TestContextsOfManyCallersEndOnTime(t *testing.T) {
	tracker := newTracker()
	const callers, each, life = 16, 200, 5 * time.Millisecond
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for i := range each {
				now := time.Now()
				switch one := tracker.Begin(ctx, "", now, now.Add(life)); {
				case i%20 != c%20:
					one.End()
					if err := one.Err(); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a call that has ended: got %v", err)
					}
				default:
					<-one.Done() // at its deadline
					if err, took := one.Err(), time.Since(now); !errors.Is(err, context.DeadlineExceeded) || took < life {
						t.Errorf("got %v after %v, want %v after %v", err, took, context.DeadlineExceeded, life)
					}
				}
			}
		})
	}
	group.Wait()
}
