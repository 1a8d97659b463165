package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

func TestSystemTimersFireOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.System.Now()
		var calledAt time.Duration
		call := clock.System.AfterFunc(time.Second, func() { calledAt = clock.System.Since(start) })
		if call.C() != nil {
			t.Error("the timer of AfterFunc has a channel")
		}
		sent := <-clock.System.NewTimer(2 * time.Second).C()
		if got := sent.Sub(start); got != 2*time.Second {
			t.Errorf("the timer fired after %v, want 2s", got)
		}
		synctest.Wait()
		if calledAt != time.Second {
			t.Errorf("the function was called after %v, want 1s", calledAt)
		}
	})
}

func TestSystemTimersStopAndStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.System.Now()
		timer := clock.System.NewTimer(time.Second)
		if !timer.Stop() {
			t.Error("Stop of a pending timer returned false")
		}
		if timer.Reset(3 * time.Second) {
			t.Error("Reset of a stopped timer returned true")
		}
		<-timer.C()
		if got := clock.System.Since(start); got != 3*time.Second {
			t.Errorf("the timer fired after %v, want 3s", got)
		}
	})
}

func TestSleepEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.System.Now()
		if err := clock.Sleep(t.Context(), clock.System, time.Second); err != nil {
			t.Errorf("Sleep = %v, want no error", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := clock.Sleep(ctx, clock.System, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep = %v, want %v", err, context.DeadlineExceeded)
		}
		if got := clock.System.Since(start); got != 2*time.Second {
			t.Errorf("both took %v, want 2s", got)
		}
	})
}
