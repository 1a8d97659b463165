package deadline

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const timeout = 20 * time.Millisecond

// contexts returns how many contexts the tracker has, including ended ones.
func (t *Tracker) contexts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.active)
	for one := t.started.Load(); one != nil; one = one.next {
		n++
	}
	return n
}

func TestContextEndsAtItsDeadlineAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(timeout, nil)
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
			t.Errorf("%d contexts are left", n)
		}
	})
}

func TestContextEndsSoonAfterItsCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(timeout, nil)
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
			t.Errorf("another's ended too: %v", err)
		}
		own.End()
		others.End()
	})
}

func TestEndEndsDerivedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(timeout, nil)
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
			t.Error("it took a while")
		}
	})
}

func TestEndedContextsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(timeout, nil)
		now := time.Now()
		stays := tracker.Begin(context.Background(), "", now, now.Add(time.Hour))
		for range 100 * sweepCalls {
			tracker.Begin(context.Background(), "", now, now.Add(time.Hour)).End()
		}
		if n := tracker.contexts(); n > 1+sweepCalls {
			t.Errorf("%d contexts, want the active one and at most %d others", n, sweepCalls)
		}
		if err := stays.Err(); err != nil {
			t.Errorf("that one has ended: %v", err)
		}
		<-stays.Done()
		if got := time.Since(now); got != time.Hour {
			t.Errorf("it ended after %v, want %v", got, time.Hour)
		}
		if n := tracker.contexts(); n != 0 {
			t.Errorf("%d contexts are left", n)
		}
	})
}

func TestContextsOfManyCallersEndOnTime(t *testing.T) {
	tracker := NewTracker(timeout, nil)
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
						t.Errorf("a call that is over: got %v", err)
					}
				default:
					<-one.Done() // by itself
					if err, took := one.Err(), time.Since(now); !errors.Is(err, context.DeadlineExceeded) || took < life {
						t.Errorf("got %v after %v, want %v after %v", err, took, context.DeadlineExceeded, life)
					}
				}
			}
		})
	}
	group.Wait()
}

// The goroutine that checks may be preempted. Calls begin meanwhile, and end on time.
func TestContextBeginsWhileOthersAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := NewTracker(timeout, nil)
		tracker.mu.Lock() // as a check does that has read the list
		now := time.Now()
		long := tracker.Begin(context.Background(), "", now, now.Add(30*time.Millisecond))
		short := tracker.Begin(context.Background(), "", now, now.Add(7*time.Millisecond))
		for range sweepCalls { // one of them would start a check
			tracker.Begin(context.Background(), "", now, now.Add(time.Hour)).End()
		}
		tracker.mu.Unlock()
		tracker.serveRequest()
		<-short.Done()
		if got := time.Since(now); got != 7*time.Millisecond {
			t.Errorf("ended after %v, want 7ms", got)
		}
		<-long.Done()
		if got := time.Since(now); got != 30*time.Millisecond {
			t.Errorf("ended after %v, want 30ms", got)
		}
	})
}

// The more contexts are active, the more new ones it takes for a check: otherwise checks would take all the time.
func TestManyContextsAreSeldomChecked(t *testing.T) {
	const size = 1 << 16
	tracker := NewTracker(time.Hour, nil)
	now := time.Now()
	checks, due := 0, tracker.sweepAt.Load()
	var live []*Context
	for range size {
		live = append(live, tracker.Begin(context.Background(), "", now, now.Add(time.Hour)))
		if next := tracker.sweepAt.Load(); next != due {
			checks, due = checks+1, next
		}
	}
	if checks < 2 || checks > 20 { // about 8, each with twice as many
		t.Errorf("%d checks of %d contexts, want from 2 to 20", checks, size)
	}
	for _, c := range live {
		c.End()
	}
	for range 2 * size { // ended ones are removed
		tracker.Begin(context.Background(), "", now, now.Add(time.Hour)).End()
	}
	if got := len(tracker.active); got > sweepCalls {
		t.Errorf("%d contexts, want at most %d", got, sweepCalls)
	}
	tracker.timer.Stop()
}
