package fleetredis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/regiontotals"
)

// Simulations use regiontotals in place of the script.
func TestRegionTotalsAreThoseOfTheScript(t *testing.T) {
	t.Parallel()
	_, store := openStandalone(t)
	script, err := NewRegionStore(store, "")
	if err != nil {
		t.Fatal(err)
	}
	memory := regiontotals.New(time.Now)
	const hold = time.Hour // so that the same node stays the sender
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		key := keyOf(fmt.Sprint(seed))
		windows := int64(2 + seed%2*3)
		for step := range 30 {
			if r.IntN(2) == 0 {
				record := fleet.NodeRecord{
					Key: key, Start: 1 + r.Int64N(3), Window: r.Int64N(windows), Total: r.Int64N(50), Reported: r.Int64N(3),
					Previous: r.Int64N(60), Learned: r.IntN(4) == 0, Keep: time.Hour,
				}
				record.Before = max(0, record.Window-1-r.Int64N(2))
				node := fmt.Sprint("node ", r.IntN(3))
				report := func(s fleet.RegionStore) (got fleet.RegionRecord) {
					_, err := s.Report(t.Context(), node, hold, []fleet.NodeRecord{record},
						func(_ int, r fleet.RegionRecord) { got = r })
					if err != nil {
						t.Fatal(err)
					}
					got.Start, got.Now = 0, 0 // clocks are read at different moments
					return got
				}
				if got, want := report(memory), report(script); got != want {
					t.Fatalf("seed %d step %d: report of %s %+v: got %+v, want %+v", seed, step, node, record, got, want)
				}
				continue
			}
			total := fleet.RemoteTotal{
				Key: key, Region: fmt.Sprint("region ", r.IntN(2)), Start: 1 + r.Int64N(2+windows), Window: r.Int64N(windows),
				Total: r.Int64N(60), Previous: r.Int64N(60), SentAt: r.Int64N(10), MaxTotal: 40, MaxGrowth: 15, Keep: time.Hour,
			}
			total.Before = max(0, total.Window-1-r.Int64N(2))
			settle := func(s fleet.RegionStore) (got fleet.Growth) {
				_, err := s.Settle(t.Context(), []fleet.RemoteTotal{total}, func(_ int, g fleet.Growth) { got = g })
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got, want := settle(memory), settle(script); got != want {
				t.Fatalf("seed %d step %d: %+v: got %+v, want %+v", seed, step, total, got, want)
			}
		}
	}
}
