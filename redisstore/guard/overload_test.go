package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A stoppedClock is the clock of a process that is stopped from a time to another: no timer fires meanwhile.
type stoppedClock struct {
	clock.Clock
	from, to time.Time
}

func (c stoppedClock) wait(d time.Duration) time.Duration {
	if at := time.Now().Add(d); !at.Before(c.from) && at.Before(c.to) {
		return time.Until(c.to)
	}
	return d
}

func (c stoppedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return stoppedTimer{c.Clock.AfterFunc(c.wait(d), f), c}
}

func (c stoppedClock) NewTimer(d time.Duration) clock.Timer {
	return stoppedTimer{c.Clock.NewTimer(c.wait(d)), c}
}

type stoppedTimer struct {
	clock.Timer
	clock stoppedClock
}

func (t stoppedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.wait(d)) }

// startStopped returns a guard of a store whose responses arrive while the process is stopped for half a second, and
// are read a millisecond later.
func startStopped(t *testing.T) *Guard {
	t.Helper()
	const stop = 500 * time.Millisecond
	from := time.Now().Add(5 * time.Millisecond)
	w := &trafficFake{fakeStore: newFake(t, nil), answer: stop + 6*time.Millisecond, sent: time.Now()}
	time.AfterFunc(6*time.Millisecond, func() { w.set(from, true) })
	time.AfterFunc(5*time.Millisecond+stop, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answer = time.Millisecond
	})
	return newGuard(t, w, Options{Clock: stoppedClock{clock.System, from, from.Add(stop)}})
}

func TestStoppedProcessIsNotOverloaded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startStopped(t)
		var group sync.WaitGroup
		for range 3 { // of one key: the others wait for the first one
			group.Go(func() {
				d, err := g.Take(context.Background(), check("/1", "10/s"))
				if err != nil || !d.Allowed {
					t.Errorf("got %+v and %v, want a decision", d, err)
				}
			})
		}
		group.Wait()
		if s := g.Stats(); s.Overloaded != 0 || s.Open+s.Closed+s.Local != 0 {
			t.Errorf("got %d overloaded, %d by policies, want none", s.Overloaded, s.Open+s.Closed+s.Local)
		}
	})
}

// While this process is slow, a call gets more time than its deadline. The requests that wait for that call get as much.
func TestWaitersLastAsLongAsTheCallTheyWaitFor(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name        string
		stop        time.Duration // this process does not run from 5 ms on
		hearsOthers bool          // another response is read shortly before the deadline
		answer      time.Duration
	}{
		{name: "the process did not run for a while", stop: 10 * ms, answer: 25 * ms},
		{name: "another response was just read", hearsOthers: true, answer: 30 * ms},
	} {
		for _, limit := range []string{"1/h", "40/h"} { // the waiters are denied by the response, or call the store themselves
			t.Run(tt.name+", "+limit, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					start := time.Now()
					w := &trafficFake{fakeStore: newFake(t, nil), answer: tt.answer, sent: start.Add(-time.Second)}
					time.AfterFunc(ms, func() { w.set(time.Now(), false) })
					if tt.hearsOthers {
						time.AfterFunc(18*ms, w.receive)
					}
					time.AfterFunc(tt.answer, func() {
						w.receive()
						w.mu.Lock()
						defer w.mu.Unlock()
						w.answer = ms
					})
					from := start.Add(5 * ms)
					g := newGuard(t, w, Options{Clock: stoppedClock{clock.System, from, from.Add(tt.stop)}})
					var group sync.WaitGroup
					for range 12 {
						group.Go(func() {
							d, err := g.Take(context.Background(), check("/1", limit))
							if err != nil || d.Degraded {
								t.Errorf("got %+v and %v, want a decision of the store", d, err)
							}
						})
					}
					group.Wait()
				})
			})
		}
	}
}

func TestQueuedRequestsOutlastAStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startStopped(t)
		var group sync.WaitGroup
		for i := range 2 * admission.MinActive {
			group.Go(func() {
				if _, err := g.Take(context.Background(), check("/"+string(rune('A'+i)), "10/s")); err != nil {
					t.Errorf("got %v, want a decision", err)
				}
			})
		}
		group.Wait()
		if s := g.Stats(); s.Queued == 0 {
			t.Error("nothing was queued")
		}
	})
}

func TestOverloadEventSaysWhatWasWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []Event
		w := &trafficFake{fakeStore: newFake(t, nil), answer: time.Hour, sent: time.Now(), unread: true}
		g := newGuard(t, w, Options{OnEvent: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}})
		for range 2 {
			if _, err := g.Take(context.Background(), check("/1", "10/s")); !errors.Is(err, headgate.ErrOverloaded) {
				t.Errorf("got %v, want %v", err, headgate.ErrOverloaded)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(events) != 1 || events[0].Kind != Overloaded || events[0].Reason != slowCall {
			t.Errorf("got %+v, want one event of kind %q with reason %q", events, Overloaded, slowCall)
		}
	})
}
