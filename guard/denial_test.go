package guard

import (
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/limittest"
)

// What a denial says at any time and for any cost must be what the algorithm would have said then, to the microsecond;
// and where it may say something about other costs than the one that was denied, it does.
func TestDenialSaysWhatTheStoreWould(t *testing.T) {
	for _, tt := range []struct {
		limit    string
		tellsAll bool
	}{
		{"10/s", true},
		{"10/s burst 20", true},
		{"1/m gcra", true},
		{"10/s leaky-bucket burst 7", true},
		{"20/s fixed-window", true},
		{"1000000/s burst 5", true},
		{"3/366d burst 2", true},
		{"100/h fixed-window staggered", true},
		{"300/s", false},
		{"7/s burst 3", false},
		{"20/s sliding-log", false},
		{"20/s sliding-window", false},
		{"20/s sliding-buckets", false},
		{"20 concurrent ttl 1s", false},
	} {
		limit := headgate.MustParseLimit(tt.limit)
		plan, err := algorithm.NewPlan(limit)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		hold := DefaultDenyCache.Microseconds()
		now, capacity := limittest.Start.UnixMicro(), limit.Capacity()
		span := max(2, limit.Period.Microseconds()/limit.Count)
		if limit.Algorithm == headgate.Concurrency {
			span = limit.TTL.Microseconds() / 20
		}
		var state algorithm.State
		var known *denial
		denied, others := 0, 0
		for i := range 20_000 {
			now += rng.Int64N(span)
			c := headgate.Check{Key: "alice", Limit: limit, Cost: rng.Int64N(capacity + 2)}
			if rng.IntN(2) == 0 {
				c.Cost = 1
			}
			var d headgate.Decision
			if limit.Algorithm != headgate.Concurrency && rng.IntN(10) == 0 && c.Cost > 0 {
				if state, _, err = plan.Charge(state, now, c.Cost); err != nil {
					t.Fatal(err)
				}
				known = nil
				continue
			}
			if state, d = plan.Take(state, now, c.Cost, uint64(i+1)); d.Allowed && c.Cost > 0 {
				known = nil
			}
			if d.Allowed && c.Cost == 0 {
				continue
			}
			if known = denialOf(7, &c, now, hold, &d, known); known == nil {
				continue
			}
			for range 5 {
				at := now + rng.Int64N(2*span)
				if rng.IntN(3) == 0 && d.RetryAfter != headgate.Never {
					at = now + max(0, d.RetryAfter.Microseconds()-rng.Int64N(2)) // at the border
				}
				cost := rng.Int64N(capacity + 3)
				if rng.IntN(2) == 0 {
					cost = c.Cost
				}
				got, ok := known.answer(cost, at)
				if !ok {
					continue
				}
				want := plan.Decide(state, at, cost)
				if !tt.tellsAll {
					want.Remaining = got.Remaining
				}
				if got != want {
					t.Fatalf("%s: cost %d, %d µs after cost %d met %+v: got %+v, want %+v", limit, cost, at-now, c.Cost, d, got, want)
				}
				if denied++; cost > c.Cost && cost <= capacity {
					others++
				}
			}
		}
		if denied < 1000 || tt.tellsAll && capacity > 2 && others < 100 {
			t.Errorf("%s: only %d answers, %d of them about larger costs", limit, denied, others)
		}
	}
}

func TestDenialHoldsForLargerCostsWhereTheAnswerTells(t *testing.T) {
	for _, tt := range []struct {
		limit string
		holds bool
	}{{"10/s", true}, {"10/h fixed-window", true}, {"3/s burst 10", false}, {"10/h sliding-window", false}, {"10 concurrent", false}} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{})
			c := check("a/1", tt.limit)
			take(t, g, costing(c, 8))
			for _, step := range []struct {
				cost  int64
				calls int64 // beyond those before, if it holds for larger costs, and if not
				other int64
			}{
				{3, 1, 1}, {3, 0, 0}, {4, 0, 1}, {4, 0, 0}, {10, 0, 1}, {11, 0, 1}, {1000, 0, 0}, {3, 0, 0}, {2, 1, 1},
			} {
				calls := f.calls.Load()
				d := take(t, g, costing(c, step.cost))
				want := step.calls
				if !tt.holds {
					want = step.other
				}
				if got := f.calls.Load() - calls; got != want || d.Allowed != (step.cost == 2) {
					t.Errorf("%s: cost %d: %d calls, want %d; got %+v", tt.limit, step.cost, got, want, d)
				}
			}
		})
	}
}
