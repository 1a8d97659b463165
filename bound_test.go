package headgate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/memstore"
)

// limiters returns limiters of both kinds: one that is a Preparer, and one that is not.
func limiters(t testing.TB) map[string]headgate.Limiter {
	t.Helper()
	store := memstore.MustNew(memstore.Options{})
	t.Cleanup(func() { store.Close() })
	return map[string]headgate.Limiter{"memstore": store, "any": stepstore.New(time.Now)}
}

func TestBoundDecidesLikeItsLimiter(t *testing.T) {
	ctx := context.Background()
	for name, l := range limiters(t) {
		b := headgate.MustBind(l, headgate.PerHour(3))
		if !b.Allow("alice") || !b.AllowN("alice", 2) || b.Allow("alice") {
			t.Errorf("%s: Allow: want 3 units to pass and no more", name)
		}
		if d, err := l.Peek(ctx, b.Check("alice", 1)); err != nil || d.Allowed || d.Remaining != 0 {
			t.Errorf("%s: the limiter's Peek: got %+v, %v, want the same counter, denied", name, d, err)
		}
		if d, err := b.Peek(ctx, "bob", 3); err != nil || !d.Allowed || d.Remaining != 3 {
			t.Errorf("%s: Peek: got %+v, %v, want 3 remaining", name, d, err)
		}
		d, err := b.Take(ctx, "bob", 3)
		if err != nil || !d.Allowed {
			t.Fatalf("%s: Take: got %+v, %v, want allowed", name, d, err)
		}
		if err := b.Give(ctx, "bob", 2, d.Receipt); err != nil {
			t.Errorf("%s: Give: %v", name, err)
		}
		if d, err := b.Charge(ctx, "bob", 4); err != nil || d.Remaining != -2 {
			t.Errorf("%s: Charge: got %+v, %v, want -2 remaining", name, d, err)
		}
		if err := b.Reset(ctx, "bob"); err != nil {
			t.Errorf("%s: Reset: %v", name, err)
		}
		if err := b.WaitN(ctx, "bob", 3); err != nil {
			t.Errorf("%s: WaitN after Reset: %v", name, err)
		}
	}
}

// A mistake of the caller never means that there is no limit.
func TestMisuseDenies(t *testing.T) {
	ctx := context.Background()
	var none context.Context
	for name, l := range limiters(t) {
		b := headgate.MustBind(l, headgate.PerHour(1))
		for misuse, allowed := range map[string]bool{
			"an empty key":  b.Allow(""),
			"a long key":    b.Allow(strings.Repeat("k", headgate.MaxKeyBytes+1)),
			"no units":      b.AllowN("alice", 0),
			"units below 0": b.AllowN("alice", -1),
		} {
			if allowed {
				t.Errorf("%s: Allow with %s: got true, want false", name, misuse)
			}
		}
		_, emptyKey := b.Take(ctx, "", 1)
		_, noCost := l.Take(ctx, headgate.Check{Key: "alice", Limit: headgate.PerHour(1)})
		_, noCosts := l.TakeAll(ctx, []headgate.Check{{Key: "alice", Limit: headgate.PerHour(1)}}, nil)
		_, negative := b.Take(ctx, "alice", -1)
		_, negativePeek := b.Peek(ctx, "alice", -1)
		for misuse, err := range map[string]error{
			"an empty key": emptyKey, "no cost": noCost, "no cost in TakeAll": noCosts, "a negative cost": negative,
			"a peek at a negative cost": negativePeek,
			"a receipt of no units":     b.Give(ctx, "alice", 1, headgate.Receipt{}),
			"more than the receipt":     b.Give(ctx, "alice", 2, headgate.Receipt{At: 1, Units: 1}),
			"settling a denial":         b.Settle(ctx, "alice", headgate.Receipt{}, 1),
			"settling less than 0":      b.Settle(ctx, "alice", headgate.Receipt{Units: 1}, -1),
		} {
			var input *headgate.InputError
			if !errors.As(err, &input) || !errors.Is(err, headgate.ErrInvalidCheck) {
				t.Errorf("%s: %s: got %v, want an InputError", name, misuse, err)
			}
		}
		_, take := b.Take(none, "alice", 1)
		_, peek := b.Peek(none, "alice", 1)
		_, delay := b.Delay(none, "alice", 1)
		_, hold := b.Hold(none, "alice")
		for method, err := range map[string]error{
			"Take": take, "Peek": peek, "Delay": delay, "Hold": hold, "Wait": b.Wait(none, "alice"),
			"Settle": b.Settle(none, "alice", headgate.Receipt{Units: 1}, 1), "Reset": b.Reset(none, "alice"),
		} {
			if !errors.Is(err, headgate.ErrNilContext) {
				t.Errorf("%s: %s with a nil context: got %v, want %v", name, method, err, headgate.ErrNilContext)
			}
		}
		if d, err := b.Peek(ctx, "alice", 1); err != nil || d.Remaining != 1 {
			t.Errorf("%s: after all of that: got %+v, %v, want nothing taken", name, d, err)
		}
	}
	if _, err := headgate.Bind(nil, headgate.PerHour(1)); err == nil {
		t.Error("Bind of nil: got no error")
	}
	if _, err := headgate.Bind(stepstore.New(time.Now), headgate.Limit{}); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("Bind of the zero Limit: got %v, want %v", err, headgate.ErrInvalidLimit)
	}
}

// A receipt of another store cannot be told from one's own. It never makes a key better than new.
func TestReceiptOfAnotherStoreAddsNoCapacity(t *testing.T) {
	ctx := context.Background()
	mine, other := memstore.MustNew(memstore.Options{}), memstore.MustNew(memstore.Options{})
	defer mine.Close()
	defer other.Close()
	limit := headgate.PerHour(5)
	b := headgate.MustBind(mine, limit)
	foreign, err := headgate.MustBind(other, limit).Take(ctx, "alice", 5)
	if err != nil {
		t.Fatal(err)
	}
	b.AllowN("alice", 2)
	if err := b.Give(ctx, "alice", 5, foreign.Receipt); err != nil {
		t.Errorf("Give: got %v, want nil", err)
	}
	if d, err := b.Peek(ctx, "alice", 1); err != nil || d.Remaining != 5 {
		t.Errorf("got %d remaining, %v, want the 5 of a new key", d.Remaining, err)
	}
	slot, err := headgate.MustBind(other, headgate.InFlight(1)).Take(ctx, "jobs", 1)
	if err != nil {
		t.Fatal(err)
	}
	jobs := headgate.MustBind(mine, headgate.InFlight(1))
	jobs.Allow("jobs")
	if err := jobs.Give(ctx, "jobs", 1, slot.Receipt); err != nil {
		t.Errorf("Give of a slot: got %v, want nil", err)
	}
	if jobs.Allow("jobs") {
		t.Error("the slot of another store released ours")
	}
}

// Copies of a Bound share the counters of its limiter.
func TestCopyOfABoundSharesItsCounters(t *testing.T) {
	for name, l := range limiters(t) {
		b := headgate.MustBind(l, headgate.PerHour(2))
		c := *b
		if !b.Allow("alice") || !c.Allow("alice") || b.Allow("alice") || c.Allow("alice") {
			t.Errorf("%s: want the two units of the limit to pass, not two for each copy", name)
		}
	}
}

// brokenLimiter fails.
type brokenLimiter struct {
	headgate.Limiter
	err error
}

func (b brokenLimiter) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, b.err
}

func TestPolicyDecidesWhenTheLimiterFails(t *testing.T) {
	for _, tt := range []struct {
		err          error
		open, closed bool
	}{
		{errors.New("connection refused"), true, false},
		{headgate.ErrFull, true, false},
		{headgate.ErrClosed, false, false},
		{headgate.ErrOverloaded, false, false},
	} {
		b := headgate.MustBind(brokenLimiter{err: tt.err}, headgate.PerHour(1))
		if got := b.Allow("alice"); got != tt.open {
			t.Errorf("%v, open: got %t, want %t", tt.err, got, tt.open)
		}
		if got := b.WithPolicy(headgate.Closed).Allow("alice"); got != tt.closed {
			t.Errorf("%v, closed: got %t, want %t", tt.err, got, tt.closed)
		}
	}
}

func TestDelaysSpaceCallersAtTheRate(t *testing.T) {
	for _, text := range []string{"10/s burst 1", "10/s gcra burst 1", "10/s leaky-bucket burst 5"} {
		synctest.Test(t, func(t *testing.T) {
			b := headgate.MustBind(stepstore.New(time.Now), headgate.MustParseLimit(text))
			for i := range 5 {
				d, err := b.Delay(t.Context(), "alice", 1)
				if want := time.Duration(i) * 100 * time.Millisecond; err != nil || !d.Allowed || d.Delay != want {
					t.Errorf("%s: caller %d: got %+v, %v, want a delay of %v", text, i, d, err, want)
				}
			}
			if d, err := b.Delay(t.Context(), "alice", 100); err != nil || d.Allowed || d.RetryAfter != headgate.Never {
				t.Errorf("%s: more than the capacity: got %+v, %v, want never", text, d, err)
			}
		})
	}
}

func TestDelayBeyondTheLargestDebtTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		window := headgate.MustBind(stepstore.New(time.Now), headgate.MustParseLimit("10/s fixed-window"))
		if _, err := window.Delay(t.Context(), "alice", 1); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("a window: got %v, want %v", err, headgate.ErrUnsupported)
		}
		b := headgate.MustBind(stepstore.New(time.Now), headgate.MustParseLimit("10/s burst 2"))
		for range 11 {
			if d, err := b.Delay(t.Context(), "alice", 2); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v, want allowed", d, err)
			}
		}
		before, _ := b.Peek(t.Context(), "alice", 0)
		d, err := b.Delay(t.Context(), "alice", 2)
		if err != nil || d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("got %+v, %v, want denied with a RetryAfter", d, err)
		}
		if after, _ := b.Peek(t.Context(), "alice", 0); after != before {
			t.Errorf("got %+v after the denial, want %+v as before", after, before)
		}
	})
}

func TestDelayedUnitsCanBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := headgate.MustBind(stepstore.New(time.Now), headgate.MustParseLimit("10/s burst 1"))
		b.Allow("alice")
		d, err := b.Delay(t.Context(), "alice", 1)
		if err != nil || d.Delay != 100*time.Millisecond {
			t.Fatalf("got %+v, %v, want a delay of 100ms", d, err)
		}
		if err := b.Give(t.Context(), "alice", 1, d.Receipt.Delayed(d.Delay)); err != nil {
			t.Fatal(err)
		}
		if d, err := b.Delay(t.Context(), "alice", 1); err != nil || d.Delay != 100*time.Millisecond {
			t.Errorf("the next caller: got %+v, %v, want the place that was given back", d, err)
		}
	})
}

// bans is a limiter that embeds a Preparer and decides some keys itself.
type bans struct {
	*memstore.Store
	banned []string
}

func (b bans) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if slices.Contains(b.banned, c.Key) {
		return headgate.Decision{RetryAfter: headgate.Never}, nil
	}
	return b.Store.Take(ctx, c)
}

func TestBindUsesTheTakeOfALimiterThatEmbedsAStore(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	l := bans{store, []string{"mallory"}}
	for name, l := range map[string]headgate.Limiter{"value": l, "pointer": &l} {
		b := headgate.MustBind(l, headgate.PerHour(10))
		d, err := b.Take(t.Context(), "mallory", 1)
		if err != nil || d.Allowed || b.Allow("mallory") {
			t.Errorf("%s: Take of a banned key: got %+v, %v, want Take and Allow to deny", name, d, err)
		}
		if !b.Allow("alice") {
			t.Errorf("%s: Allow of another key: got false, want true", name)
		}
	}
}

// A Bound over a limiter that does not have the custom algorithm denies.
func TestBoundDeniesAnUnknownAlgorithm(t *testing.T) {
	b := headgate.MustBind(stepstore.New(time.Now), headgate.Limit{Algorithm: headgate.FirstCustom, Count: 1, Period: time.Hour})
	if _, err := b.Take(t.Context(), "alice", 1); !errors.Is(err, headgate.ErrInvalidLimit) || b.Allow("alice") {
		t.Errorf("got %v, want %v, and Allow to deny", err, headgate.ErrInvalidLimit)
	}
}
