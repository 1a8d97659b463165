package redisstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/internal/racing"
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
	case racing.Enabled || testing.Short():
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
			seen, err := changetest.Run(ctx, steps/at, func(run uint64) *changetest.History {
				clock.Set(limittest.Start)
				return changetest.New(s, clock, fmt.Sprintf("key-%d-%d", i, run), rand.New(rand.NewPCG(uint64(i), run)), changetest.Options{})
			})
			if err != nil {
				t.Errorf("goroutine %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all.Add(seen)
		})
	}
	group.Wait()
	t.Logf("%+v", all)
	if err := all.CheckVariety(); err != nil {
		t.Error(err)
	}
}
