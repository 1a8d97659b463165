package async

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A node that had charged too much, or too little, once stayed off by that until the bucket was full again.
func TestNodesAgreeOnWhatRemains(t *testing.T) {
	for seed := range uint64(8) {
		for _, limit := range []headgate.Limit{headgate.PerSecond(200), headgate.MustParseLimit("90/s gcra")} {
			t.Run(fmt.Sprint(limit, " seed ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all := startAsync(t, 5, fleettest.NewBoard(500*time.Microsecond), nil)
					defer closeAsync(t, all...)
					// The client sends half of its limit more than allowed.
					random := rand.New(rand.NewPCG(seed, 1))
					mean := float64(time.Second) / float64(limit.Count) / 1.5
					for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
						time.Sleep(time.Duration(mean * random.ExpFloat64()))
						takeAsync(t, all[random.IntN(len(all))], "k", limit, 1)
					}
					time.Sleep(200 * time.Millisecond)
					var left []int64
					least, most := limit.Count, int64(0)
					for _, a := range all {
						d, err := a.Peek(context.Background(), headgate.Check{Key: "k", Limit: limit})
						if err != nil {
							t.Fatal(err)
						}
						left = append(left, d.Remaining)
						least, most = min(least, d.Remaining), max(most, d.Remaining)
					}
					if most-least > 2 {
						t.Errorf("remaining on the nodes: got %v, want a difference of at most 2", left)
					}
				})
			})
		}
	}
}
