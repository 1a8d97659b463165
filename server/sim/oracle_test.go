package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
	definition "github.com/headgate/headgate/internal/oracle"
)

func TestEveryWrongRequestCountsOnce(t *testing.T) {
	for _, cost := range []int64{1, 5} {
		limit := headgate.MustParseLimit("10/s")
		limit.Count *= cost
		o, err := newOracle([]headgate.Limit{limit}, nil)
		if err != nil {
			t.Fatal(err)
		}
		count := func(from, requests, every int64, allowed bool) (wrong int) {
			for i := range requests {
				if bad, _ := o.judge(1, from+i*every, cost, allowed); bad {
					wrong++
				}
			}
			return wrong
		}
		const second = 1_000_000
		if got := count(0, 15, 0, true); got != 5 {
			t.Errorf("cost %d: 15 admitted at once: %d are wrong, want 5", cost, got)
		}
		if got := count(second/10, 50, second/10, true); got != 0 {
			t.Errorf("cost %d: then 10 per second: %d are wrong, want 0", cost, got)
		}
		if got := count(100*second, 30, 0, false); got != 10 {
			t.Errorf("cost %d: 30 denied at once by a full bucket: %d are wrong, want 10", cost, got)
		}
		if got := count(100*second+second/10, 20, second/10, true); got != 0 {
			t.Errorf("cost %d: then 10 per second: %d are wrong, want 0", cost, got)
		}
	}
}

// TestOracleAgreesWithTheDefinition compares the oracle, which counts by the algorithms' own steps, with the one that is
// written from their definitions. Some requests are admitted although the limit has no room, so there are debts.
func TestOracleAgreesWithTheDefinition(t *testing.T) {
	for _, text := range []string{
		"10/s", "50/s burst 100", "7/3s gcra", "20/m leaky-bucket", "30/2s fixed-window", "25/2s sliding-log",
	} {
		for _, most := range []int64{1, 5} {
			limit := headgate.MustParseLimit(text)
			o, err := newOracle([]headgate.Limit{limit}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defined := definition.New(limit)
			random := rand.New(rand.NewPCG(1, 2))
			now := int64(1_700_000_000_000_000)
			for range 3000 {
				now += random.Int64N(2 * most * limit.Period.Microseconds() / limit.Count)
				cost := 1 + random.Int64N(most)
				fits := defined.Fits(now, cost)
				allowed := fits || most > 1 && random.IntN(20) == 0
				_, excess := o.judge(1, now, cost, allowed)
				if got := room(o.all, 1, now, cost); !allowed && got {
					t.Fatalf("%s at %d: there is room for %d, by the definition there is none", text, now, cost)
				}
				if allowed {
					defined.Force(now, cost)
				}
				if fits && excess > 0 || allowed && !fits && excess == 0 {
					t.Fatalf("%s at %d: %d units above the limit after a request of cost %d that fits: %v", text, now, excess, cost, fits)
				}
				if got, want := room(o.all, 1, now, 1), defined.Fits(now, 1); got != want {
					t.Fatalf("%s at %d: room for 1 = %v, by the definition %v", text, now, got, want)
				}
			}
		}
	}
}
