package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestCloseHandsBackWhatIsHeld(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		var taken int64
		c := headgate.Check{Limit: headgate.PerHour(10_000)}
		for i := range 100 {
			c.Key = fmt.Sprint("key", i)
			taken += warm(t, l, c)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got int64
		for i := range 100 {
			c.Key = fmt.Sprint("key", i)
			got += 10_000 - remaining(t, w, c)
		}
		if got != taken {
			t.Errorf("%d units are missing in the store, want the %d that were used", got, taken)
		}
		if _, err := l.Take(t.Context(), c); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("take after close: got %v, want %v", err, headgate.ErrClosed)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close after close: got %v, want nil", err)
		}
	})
}

func TestCloseSendsThoseAwayWhoWaitAndHandsBackWhatIsOnItsWay(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		w.delay = roundTrip(40 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 5}
		told := make(chan error)
		go func() {
			_, err := l.Take(context.Background(), c)
			told <- err
		}()
		time.Sleep(10 * time.Millisecond)
		closed := make(chan error)
		go func() { closed <- l.Close(context.Background()) }()
		if err := <-told; !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("the one who waited got %v, want %v", err, headgate.ErrClosed)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if got := remaining(t, w, c); got != 100 {
			t.Errorf("the store has %d left, want 100", got)
		}
	})
}

func TestCloseGivesUpWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		warm(t, l, headgate.Check{Key: "a", Limit: headgate.PerHour(10_000)})
		w.delay = func() time.Duration { return time.Hour }
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("it took %v, want 50ms", took)
		}
	})
}

func TestWhatIsNotUsedGoesBackAndIdleKeysAreForgotten(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(10_000)}
		taken := warm(t, l, c)
		if got := 10_000 - remaining(t, w, c); got <= taken {
			t.Fatalf("%d units debited for %d that were used, and the test shows nothing", got, taken)
		}
		time.Sleep(2 * time.Second)
		if got := 10_000 - remaining(t, w, c); got > taken {
			t.Errorf("%d units are missing in the store, want at most the %d that were used", got, taken)
		}
		if got := l.Stats(); got.Keys != 0 || got.Returned == 0 {
			t.Errorf("got %+v, want units returned and no key", got)
		}
		l.wheel.mu.Lock()
		defer l.wheel.mu.Unlock()
		if l.wheel.running {
			t.Error("the wheel turns, and there is nothing in it")
		}
	})
}

// What time has given back already is not credited once more: not by the store, and no call is made for it.
func TestNothingIsHandedBackThatTimeHasGivenBack(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(10_000)}
		warm(t, l, c)
		time.Sleep(2 * time.Second)
		if got := w.given(); got != 0 {
			t.Errorf("%d units handed back to a bucket that was full by then, want none", got)
		}
		if got := l.Stats(); got.Expired == 0 {
			t.Errorf("got %+v, want expired units", got)
		}
	})
}
