package redisstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

// TestChangedLimitsAgreeWithOracle changes rate, period, burst, algorithm and alignment of limits at random times.
// HEADGATE_SOAK=1 makes it 200,000 steps.
func TestChangedLimitsAgreeWithOracle(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	base := open(t, server.URL(), Options{Secret: testSecret})
	steps := 20_000
	switch {
	case os.Getenv("HEADGATE_SOAK") == "1":
		steps = 200_000
	case raceDetected || testing.Short():
		steps = 4_000
	}
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		all   changetest.Seen
	)
	const at = 16
	for i := range at {
		group.Go(func() {
			clock := limittest.NewClock()
			s := withClock(base, clock.Now)
			var seen changetest.Seen
			for run := 0; seen.Steps < steps/at && !t.Failed(); run++ {
				key := fmt.Sprintf("key-%d-%d", i, run)
				clock.Set(limittest.Start)
				h := changetest.New(s, clock, key, rand.New(rand.NewPCG(uint64(i), uint64(run))), changetest.Options{})
				for range 40 {
					if err := h.Step(ctx); err != nil {
						t.Errorf("history %d of %d: %v", run, i, err)
						return
					}
				}
				seen.Add(h.Seen())
			}
			mu.Lock()
			defer mu.Unlock()
			all.Add(seen)
		})
	}
	group.Wait()
	t.Logf("%+v", all)
	if all.Changes < steps/10 || all.Denied < steps/10 || all.Allowed < steps/10 {
		t.Errorf("%+v: too few of each to prove anything", all)
	}
}
