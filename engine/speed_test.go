//go:build !race

package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
)

// A decision about three limits takes all or none, which three bare takes of the same keys do not: it may cost twice as much, not
// more. The aim is half as much again.
func TestDecisionCostsLittleMoreThanItsTakes(t *testing.T) {
	const most = 2
	for name, list := range threeLimits {
		t.Run(name, func(t *testing.T) {
			set := compile(t, list)
			store := newStore(t, memstore.Options{})
			e := newEngine(t, engine.Config{Store: store, Rules: set})
			checks := checksOf(set)
			ctx := context.Background()
			var v engine.Verdict
			takes := func() {
				for i := range checks {
					if _, err := store.Take(ctx, checks[i]); err != nil {
						t.Fatal(err)
					}
				}
			}
			decides := func() {
				if err := e.Decide(ctx, aRequest, &v); err != nil {
					t.Fatal(err)
				}
			}
			// The fastest of many short turns, by turns, is what either takes when nobody disturbs it.
			fastest := [2]time.Duration{time.Hour, time.Hour}
			ratio := func() float64 { return float64(fastest[1]) / float64(fastest[0]) }
			deadline := time.Now().Add(20 * time.Second)
			for round := 0; round < 500 || ratio() > most && time.Now().Before(deadline); round++ {
				for i, do := range []func(){takes, decides} {
					start := time.Now()
					for range 100 {
						do()
					}
					fastest[i] = min(fastest[i], time.Since(start))
				}
			}
			t.Logf("three takes %v, a decision %v: %.2f times", fastest[0]/100, fastest[1]/100, ratio())
			if ratio() > most {
				t.Errorf("%.2f times three takes, want at most %v", ratio(), most)
			}
		})
	}
}
