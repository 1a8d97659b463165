package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/limittest"
)

func TestHoldBoundsWhatRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := headgate.MustBind(stepstore.New(time.Now), headgate.InFlight(3))
		var running, most atomic.Int64
		var workers sync.WaitGroup
		for range 20 {
			workers.Go(func() {
				release, err := b.Hold(t.Context(), "jobs")
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				running.Add(-1)
			})
		}
		workers.Wait()
		if most.Load() != 3 {
			t.Errorf("%d ran at once, want 3", most.Load())
		}
	})
}

func TestHeldSlotOutlivesItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := headgate.MustBind(stepstore.New(time.Now), headgate.MustParseLimit("1 concurrent ttl 1s"))
		ctx, cancel := context.WithCancel(t.Context())
		release, err := b.Hold(ctx, "jobs")
		if err != nil {
			t.Fatal(err)
		}
		cancel() // bounds only the wait
		time.Sleep(10 * time.Second)
		if b.Allow("jobs") {
			t.Error("the slot was free while it was held")
		}
		release()
		release()
		if !b.Allow("jobs") {
			t.Error("the slot was not free after its release")
		}
	})
}

func TestHoldEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := headgate.MustBind(stepstore.New(time.Now), headgate.InFlight(1))
		b.Allow("jobs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Hold(ctx, "jobs"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if _, err := headgate.MustBind(stepstore.New(time.Now), headgate.PerHour(1)).Hold(ctx, "jobs"); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("Hold of a rate: got %v, want %v", err, headgate.ErrUnsupported)
		}
		c := b.Check("jobs", 2)
		if _, err := headgate.Hold(t.Context(), stepstore.New(time.Now), c); !errors.Is(err, headgate.ErrNever) {
			t.Errorf("2 of 1 slots: got %v, want %v", err, headgate.ErrNever)
		}
	})
}

func TestDoWaitsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failed := stepstore.New(time.Now), errors.New("failed")
		start := time.Now()
		for range 3 {
			for _, limit := range []headgate.Limit{headgate.InFlight(1), headgate.PerSecond(1)} {
				c := headgate.Check{Key: "jobs", Limit: limit, Cost: 1}
				if err := headgate.Do(t.Context(), l, c, func() error { return failed }); !errors.Is(err, failed) {
					t.Errorf("%s: got %v, want the function's error", limit, err)
				}
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("three times at 1/s took %v, want 2s", took)
		}
	})
}

func TestSettleChargesOrGivesBackTheDifference(t *testing.T) {
	l := stepstore.New(time.Now)
	b := headgate.MustBind(l, headgate.PerHour(1000))
	for used, want := range map[int64]int64{0: 1000, 40: 960, 100: 900, 1400: -400} {
		if err := b.Reset(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		d, err := b.Take(t.Context(), "alice", 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Settle(t.Context(), "alice", d.Receipt, used); err != nil {
			t.Errorf("%d used: %v", used, err)
		}
		if d, err := b.Peek(t.Context(), "alice", 0); err != nil || d.Remaining != want {
			t.Errorf("%d used: got %d remaining, %v, want %d", used, d.Remaining, err, want)
		}
	}
	slot := headgate.MustBind(l, headgate.InFlight(1))
	if err := slot.Settle(t.Context(), "jobs", headgate.Receipt{Units: 1}, 1); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("concurrency: got %v, want %v", err, headgate.ErrUnsupported)
	}
}

// A request has often ended when its true cost is known.
func TestSettleOutlivesItsContext(t *testing.T) {
	for name, l := range limiters(t) {
		b := headgate.MustBind(l, headgate.PerHour(1000))
		for used, want := range map[int64]int64{0: 1000, 500: 500} {
			key := fmt.Sprint("alice", used)
			ctx, cancel := context.WithCancel(t.Context())
			d, err := b.Take(ctx, key, 10)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := b.Settle(ctx, key, d.Receipt, used); err != nil {
				t.Errorf("%s: %d used: %v", name, used, err)
			}
			if d, err := b.Peek(t.Context(), key, 0); err != nil || d.Remaining != want {
				t.Errorf("%s: %d used: got %d remaining, %v, want %d", name, used, d.Remaining, err, want)
			}
		}
	}
}

func TestSettleOfAHugeUseChargesTheLargestDebt(t *testing.T) {
	for name, l := range limiters(t) {
		b := headgate.MustBind(l, headgate.PerHour(1000))
		d, err := b.Take(t.Context(), "alice", 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Settle(t.Context(), "alice", d.Receipt, math.MaxInt64); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d, err := b.Peek(t.Context(), "alice", 0); err != nil || d.Remaining != -headgate.MaxDebt*1000 {
			t.Errorf("%s: got %d remaining, %v, want %d", name, d.Remaining, err, -headgate.MaxDebt*1000)
		}
	}
}

func TestHoldDoesNotSpinWithoutRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := limittest.NewRecorder(limittest.Denying(0))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := headgate.MustBind(recorder, headgate.InFlight(1)).Hold(ctx, "jobs")
		if n := len(recorder.Calls()); !errors.Is(err, context.DeadlineExceeded) || n > 10 {
			t.Errorf("got %v after %d attempts in 100 ms, want %v after at most 10", err, n, context.DeadlineExceeded)
		}
	})
}
