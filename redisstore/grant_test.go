package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/internal/stepstore"
)

// TestLuaGrantsAsGo makes random histories of grants, takes, charges and gives, on a store in Redis and on the steps of
// package algorithm, and expects the same of both, to the unit and the microsecond.
func TestLuaGrantsAsGo(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	base := open(t, server.URL(), Options{Secret: testSecret})
	steps := 40_000
	if racing.Enabled {
		steps /= 20
	}
	var granted atomic.Int64
	makeHistories(t, 32, steps, func(i, run uint64) func() error {
		h := newGrantHistory(t, base, i, run)
		return func() error {
			before := h.granted
			err := h.grantStep()
			granted.Add(h.granted - before)
			return err
		}
	})
	if granted.Load() == 0 {
		t.Error("nothing was granted")
	}
	t.Logf("%d grants", granted.Load())
}

// A grantHistory is a history under one limit that can be granted ahead.
type grantHistory struct {
	*history
	granted int64
}

func newGrantHistory(t *testing.T, base *Store, i, run uint64) *grantHistory {
	h := newHistory(t, base, i, run+1<<32)
	h.limits = h.limits[:1]
	for !algorithm.Grantable(h.limits[0].Algorithm) {
		h.limits[0] = h.drawLimit()
	}
	return &grantHistory{history: h}
}

func (h *grantHistory) grantStep() error {
	l := h.limits[0]
	if h.rng.IntN(6) == 0 { // back
		h.now = h.now.Add(-time.Duration(h.rng.Int64N(int64(span(l)/time.Microsecond)+1)) * time.Microsecond)
	} else {
		h.now = h.now.Add(time.Duration(h.drawNumber(int64(span(l)/time.Microsecond))/4) * time.Microsecond)
	}
	ctx := context.Background()
	switch h.rng.IntN(8) {
	case 0:
		return h.give(ctx)
	case 1:
		c := h.check(0)
		got, err := h.redis.Charge(ctx, c)
		want, wantErr := h.steps.Charge(ctx, c)
		return h.compare("charge", c, got, want, err, wantErr)
	case 2:
		c := h.check(0)
		got, err := h.redis.Take(ctx, c)
		want, wantErr := h.steps.Take(ctx, c)
		return h.compare("take", c, got, want, err, wantErr)
	}
	c := h.check(0)
	if h.rng.IntN(20) == 0 {
		c.Cost = l.Capacity() + 1
		if c.Cost > headgate.MaxCount {
			c.Cost = 1
		}
	}
	most, share := h.drawNumber(2*l.Capacity()), h.drawNumber(20)
	if h.rng.IntN(10) == 0 {
		share = h.drawNumber(headgate.MaxCount)
	}
	got, err := h.redis.Grant(ctx, c, most, share)
	want, wantErr := h.steps.Grant(ctx, c, most, share)
	if err := h.compare(fmt.Sprintf("grant up to %d, a part of %d,", most, share), c, got, want, err, wantErr); err != nil {
		return err
	}
	if got.Allowed {
		h.granted++
		if units := got.Receipt.Units; units < c.Cost || units > max(c.Cost, most) {
			return fmt.Errorf("%d units granted, want %d to %d", units, c.Cost, max(c.Cost, most))
		}
	}
	h.keep(c, got, want)
	return nil
}

func TestGrantAndTakeCountTheSameKey(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	store := open(t, server.URL(), Options{})
	for _, limit := range []string{"100/h", "100/h gcra", "100/h fixed-window", "100/h fixed-window staggered", "100/h sliding-window"} {
		t.Run(limit, func(t *testing.T) {
			c := headgate.Check{Owner: "alice", Key: "alice/" + limit, Limit: headgate.MustParseLimit(limit), Cost: 1}
			d, err := store.Grant(t.Context(), c, 40, 4)
			if err != nil || !d.Allowed || d.Receipt.Units != 25 || d.Remaining != 75 {
				t.Fatalf("a grant of up to 40, or a quarter: got %+v, %v, want 25 and 75 remaining", d, err)
			}
			c.Cost = 0
			if look, err := store.Peek(t.Context(), c); err != nil || look.Remaining != 75 {
				t.Errorf("a look after it: got %+v, %v, want 75 remaining", look, err)
			}
			c.Cost = 25
			if err := store.Give(t.Context(), c, d.Receipt); err != nil {
				t.Fatal(err)
			}
			c.Cost = 0
			if look, err := store.Peek(t.Context(), c); err != nil || look.Remaining != 100 {
				t.Errorf("a look after it was handed back: got %+v, %v, want 100 remaining", look, err)
			}
			c.Cost = 100
			if d, err := store.Grant(t.Context(), c, 1, 1000); err != nil || d.Receipt.Units != 100 {
				t.Errorf("a grant of at least 100: got %+v, %v, want 100 units", d, err)
			}
			c.Cost = 1
			if d, err := store.Grant(t.Context(), c, 10, 1); err != nil || d.Allowed || d.Receipt.Units != 0 || d.RetryAfter <= 0 {
				t.Errorf("a grant when nothing is left: got %+v, %v, want it denied with a RetryAfter", d, err)
			}
		})
	}
}

func TestGrantRefusesUnsupportedLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	store := open(t, server.URL(), Options{})
	for _, limit := range []string{"10/s leaky-bucket", "10/s sliding-log", "10/s sliding-buckets", "10 concurrent"} {
		c := headgate.Check{Key: "k", Limit: headgate.MustParseLimit(limit), Cost: 1}
		if d, err := store.Grant(t.Context(), c, 5, 2); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("%s: got %+v, %v, want %v", limit, d, err, headgate.ErrUnsupported)
		}
	}
	split := headgate.Check{Key: "k", Limit: headgate.PerSecond(100), Cost: 1, Split: 4}
	if d, err := store.Grant(t.Context(), split, 5, 2); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("split: got %+v, %v, want %v", d, err, headgate.ErrUnsupported)
	}
	none := headgate.Check{Key: "k", Limit: headgate.PerSecond(100)}
	if d, err := store.Grant(t.Context(), none, 5, 2); !errors.Is(err, headgate.ErrInvalidCheck) {
		t.Errorf("cost 0: got %+v, %v, want %v", d, err, headgate.ErrInvalidCheck)
	}
	if _, err := store.Grant(t.Context(), headgate.Check{Key: "k", Limit: headgate.PerSecond(100), Cost: 1}, -5, -2); err != nil {
		t.Errorf("less than nothing wanted: got %v, want what is needed", err)
	}
}

// Concurrent grants add up to the available units, and no more.
func TestGrantsOfManyAtOnceAddUp(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	store := open(t, server.URL(), Options{})
	c := headgate.Check{Key: "crowd", Limit: headgate.Per(10_000, 24*time.Hour), Cost: 1}
	var units atomic.Int64
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				d, err := store.Grant(ctx, c, 1+rng.Int64N(100), 8)
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Allowed {
					return
				}
				units.Add(d.Receipt.Units)
			}
		})
	}
	group.Wait()
	if got := units.Load(); got < 10_000 || got > 10_010 { // a few come back meanwhile
		t.Errorf("%d units granted, want 10000", got)
	}
}

var _ interface {
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
} = (*stepstore.Store)(nil)
