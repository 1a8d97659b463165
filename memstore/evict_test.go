//go:build !race

// These tests use one goroutine, in which there are no races to find, and take minutes under the race detector.

package memstore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

const hot = 20 // keys

// A hotRun asks for hot keys at 10 times their limit, beside a flood of new keys.
type hotRun struct {
	*testing.T
	store     *Store
	clock     *fakeClock
	limit     headgate.Limit
	checks    []headgate.Check
	decisions []headgate.Decision
}

// take asks for units of a hot key, which is several keys if calls have several checks.
func (r *hotRun) take(n int, units int64) (allowed bool) {
	for i := range r.checks {
		r.checks[i] = headgate.Check{Key: "hot" + strconv.Itoa(n) + "/" + strconv.Itoa(i), Limit: r.limit, Cost: units}
	}
	var err error
	if r.decisions, err = r.store.TakeAll(r.Context(), r.checks, r.decisions[:0]); err != nil {
		r.Fatal(err)
	}
	return headgate.Allowed(r.decisions)
}

// flooded has all hot keys denied once, and then asks for them in the flood. It returns how many of each were admitted
// in the flood, and how long it took.
func (r *hotRun) flooded(flood headgate.Limit) (admitted [hot]int64, took time.Duration) {
	for n := range hot {
		r.take(n, r.limit.Capacity())
		if r.take(n, 1) {
			r.Fatalf("%+v: allowed above the limit", r.limit)
		}
	}
	step := r.limit.Period / time.Duration(r.limit.Count) / hot / 10
	for i := range 60_000 {
		r.clock.advance(step)
		took += step
		if r.take(i%hot, 1) {
			admitted[i%hot]++
		}
		if _, err := r.store.Take(r.Context(), headgate.Check{Key: key(i), Limit: flood, Cost: 1}); err != nil {
			r.Fatal(err)
		}
	}
	if r.store.Stats().Evictions == 0 {
		r.Fatalf("%+v: nothing was evicted, the test puts no pressure on memory", r.limit)
	}
	return admitted, took
}

// A flood of new keys does not let a client that is being denied start again, though some of its decisions allow.
func TestKeysAboveTheirLimitAreNotEvicted(t *testing.T) {
	for _, test := range []struct{ limit, flood string }{
		{"1000/s", "3/h"},
		{"1000/s gcra", "3/h"},
		{"1000/s leaky-bucket", "3/h"},
		{"50/m", "3/h"},
		{"1/s", "3/h"},
		{"1000/s fixed-window", "3/h"},
		{"50/m fixed-window", "3/h"},
		{"1000/s burst 200000", "3/h sliding-window"},
		{"1000/s sliding-window", "3/h sliding-window"},
		{"100/s sliding-buckets 2", "3/h sliding-window"},
	} {
		for _, perCall := range []int{1, 2} {
			t.Run(test.limit+" "+strconv.Itoa(perCall), func(t *testing.T) {
				s, clock := newSmallStore(t)
				limit, flood := headgate.MustParseLimit(test.limit), headgate.MustParseLimit(test.flood)
				if flood.Algorithm == headgate.SlidingWindow {
					s.budget.SetLimit(4 << 20) // records take more
				}
				r := hotRun{T: t, store: s, clock: clock, limit: limit, checks: make([]headgate.Check, perCall)}
				admitted, took := r.flooded(flood)
				most := int64(took*time.Duration(limit.Count)/limit.Period) + 1
				if limit.Algorithm == headgate.FixedWindow || limit.Algorithm == headgate.SlidingBuckets {
					most += limit.Count // of the window that has begun when it ends
				}
				for n, got := range admitted {
					if got > most {
						t.Fatalf("%d admitted of key %d in %v, want at most %d", got, n, took, most)
					}
				}
			})
		}
	}
}

// A key that was denied, has drained and was left alone for a while is like any other.
func TestDeniedKeysThatHaveDrainedMakeRoom(t *testing.T) {
	for _, limit := range []string{"1/s", "1/s fixed-window", "2/s sliding-window"} {
		t.Run(limit, func(t *testing.T) {
			s, clock := newSmallStore(t)
			s.budget.SetLimit(4 << 20)
			fill(t, s, limit)
			clock.advance(10 * time.Second)
			b := bind(t, s, limit)
			for i := 0; s.Stats().Evictions == 0; i++ {
				if d, err := b.Take(context.Background(), key(i), 1); err != nil || !d.Allowed {
					t.Fatalf("key %d: %+v, %v; want it allowed", i, d, err)
				}
			}
		})
	}
}
