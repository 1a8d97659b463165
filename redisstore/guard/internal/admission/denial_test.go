package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/limittest"
)

// A denial decides at any time and for any cost as the algorithm would, to the microsecond. Where it can decide about
// other costs than the denied one, it does.
func TestDenialDecidesAsTheStoreWould(t *testing.T) {
	for _, tt := range []struct {
		limit     string
		coversAll bool
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
		hold := time.Second.Microseconds()
		now, capacity := limittest.Start.UnixMicro(), limit.Capacity()
		span := max(2, limit.Period.Microseconds()/limit.Count)
		if limit.Algorithm == headgate.Concurrency {
			span = limit.TTL.Microseconds() / 20
		}
		var state algorithm.State
		var known *Denial
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
			if known = newDenial(7, &c, now, hold, &d, known); known == nil {
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
				got, ok := known.Decide(cost, at)
				if !ok {
					continue
				}
				want := plan.Decide(state, at, cost)
				if !tt.coversAll {
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
		if denied < 1000 || tt.coversAll && capacity > 2 && others < 100 {
			t.Errorf("%s: only %d answers, %d of them about larger costs", limit, denied, others)
		}
	}
}
