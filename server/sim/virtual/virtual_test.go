package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/sim/virtual"
)

func drain(l *virtual.Loop, until time.Duration) {
	for l.Step(until) {
	}
}

func TestEventsRunInOrderOfTheirTimes(t *testing.T) {
	l := virtual.NewLoop()
	defer l.Close()
	var got []string
	for i, d := range []time.Duration{5, 3, 9, 3, 1, 7, 5} {
		l.After(d, func() { got = append(got, fmt.Sprint(int64(l.Now()), "#", i)) })
	}
	drain(l, 8)
	want := []string{"1#4", "3#1", "3#3", "5#0", "5#6", "7#5"}
	for i := range want {
		want[i] = fmt.Sprint(int64(want[i][0]-'0'), "#", want[i][2]-'0')
	}
	if !slices.Equal(got, want) || l.Now() != 8 {
		t.Errorf("got %v at %d, want %v at 8", got, l.Now(), want)
	}
}

func TestGoroutinesOfAHostWaitForEachOther(t *testing.T) {
	l := virtual.NewLoop()
	defer l.Close()
	h := l.NewHost("a", time.Hour)
	var got []string
	note := func(text string) { got = append(got, fmt.Sprint(text, " at ", l.Now())) }
	answered := make(chan int, 1)
	h.Run(func() {
		note("asks")
		h.Go(func() {
			if err := clock.Sleep(t.Context(), h, time.Second); err != nil {
				t.Errorf("Sleep = %v", err)
			}
			answered <- 7
			note("answers")
		})
		h.Wait(func() bool { return len(answered) > 0 })
		note(fmt.Sprint("gets ", <-answered))
	})
	ctx, cancel := clock.WithTimeout(t.Context(), h, 300*time.Millisecond)
	defer cancel()
	h.Run(func() {
		err := h.Sleep(ctx, time.Minute)
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) || err == nil {
			t.Errorf("Sleep = %v, cause %v, want the deadline", err, context.Cause(ctx))
		}
		note("times out")
	})
	drain(l, time.Hour)
	want := []string{"asks at 0s", "times out at 300ms", "answers at 1s", "gets 7 at 1s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := h.Now(), virtual.Epoch.Add(2*time.Hour); !got.Equal(want) {
		t.Errorf("the host's clock is at %v, want %v", got, want)
	}
}

func TestACrashedHostDoesNothingMore(t *testing.T) {
	l := virtual.NewLoop()
	defer l.Close()
	h := l.NewHost("a", 0)
	released, ran := false, false
	h.AfterFunc(time.Second, func() { ran = true })
	h.Run(func() {
		defer func() { released = true }()
		_ = h.Sleep(t.Context(), time.Minute)
		ran = true
	})
	h.Crash()
	h.Go(func() { ran = true })
	drain(l, time.Hour)
	if ran || !released {
		t.Errorf("ran = %v, want false; locks released = %v, want true", ran, released)
	}
}

func TestStoppedTimersDoNotFire(t *testing.T) {
	l := virtual.NewLoop()
	defer l.Close()
	h := l.NewHost("a", 0)
	timer := h.NewTimer(time.Second)
	if !timer.Stop() || timer.Stop() {
		t.Error("Stop must return true once")
	}
	timer.Reset(2 * time.Second)
	drain(l, time.Minute)
	select {
	case at := <-timer.C():
		if want := virtual.Epoch.Add(2 * time.Second); !at.Equal(want) {
			t.Errorf("fired at %v, want %v", at, want)
		}
	default:
		t.Error("the timer did not fire")
	}
}
