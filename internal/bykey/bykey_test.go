package bykey_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bykey"
	"github.com/headgate/headgate/memstore"
)

// take takes a unit of a limit, and returns the check for it.
func take(t *testing.T, store *memstore.Store, limit string) (headgate.Check, headgate.Decision) {
	t.Helper()
	c, err := bykey.NewCheck("alice", headgate.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	d, err := store.Take(t.Context(), c)
	if err != nil || !d.Allowed {
		t.Fatalf("got %+v, %v, want it allowed", d, err)
	}
	return c, d
}

func TestNewCheckRefusesMistakes(t *testing.T) {
	if _, err := bykey.NewCheck("alice", headgate.Limit{}); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("the zero Limit: got %v, want ErrInvalidLimit", err)
	}
	long := strings.Repeat("k", headgate.MaxKeyBytes+1)
	if _, err := bykey.NewCheck(long, headgate.PerHour(1)); !errors.Is(err, bykey.ErrLongKey) {
		t.Errorf("a long key: got %v, want ErrLongKey", err)
	}
	if err := bykey.Exempt().Validate(); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("Exempt as a limit: got %v, want ErrInvalidLimit", err)
	}
}

func TestHoldRenewsASlotUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		c, d := take(t, store, "1 concurrent ttl 3s")
		ctx, cancel := context.WithCancel(t.Context())
		release := bykey.Hold(ctx, store, c, d.Receipt)
		cancel()
		time.Sleep(time.Minute)
		if other, err := store.Take(t.Context(), c); err != nil || other.Allowed {
			t.Errorf("after 20 TTLs: got %+v, %v, want the slot held", other, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if other, err := store.Take(t.Context(), c); err != nil || !other.Allowed {
			t.Errorf("after release: got %+v, %v, want the slot free", other, err)
		}
	})
}

func TestWaitGivesBackWhatIsNotUsed(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"too early a deadline": time.Second / 2, "none": 0} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.MustNew(memstore.Options{})
			defer store.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if timeout > 0 {
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			take(t, store, "1/s leaky-bucket burst 5")
			c, d := take(t, store, "1/s leaky-bucket burst 5")
			before, err := store.Peek(t.Context(), c)
			if err != nil || d.Delay != time.Second {
				t.Fatalf("got delay %v, %v, want 1s", d.Delay, err)
			}
			start := time.Now()
			time.AfterFunc(time.Second/4, cancel)
			if waited, err := bykey.Wait(ctx, store, c, d); waited || err != nil {
				t.Errorf("deadline %s: got %v, %v, want it to give up", name, waited, err)
			}
			want := time.Second / 4
			if timeout > 0 {
				want = 0
			}
			if got := time.Since(start); got != want {
				t.Errorf("deadline %s: gave up after %v, want %v", name, got, want)
			}
			if after, err := store.Peek(t.Context(), c); err != nil || after.Remaining != before.Remaining+1 {
				t.Errorf("deadline %s: got %d, %v left, want %d", name, after.Remaining, err, before.Remaining+1)
			}
		})
	}
}
