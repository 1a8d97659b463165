package algorithm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/limittest"
)

// TestChangedLimitsAgreeWithOracle changes rate, period, burst, algorithm and alignment of limits at random times.
// HEADGATE_SOAK=1 makes it a million steps.
func TestChangedLimitsAgreeWithOracle(t *testing.T) {
	steps := 100_000
	switch {
	case os.Getenv("HEADGATE_SOAK") == "1":
		steps = 1_000_000
	case raceDetected || testing.Short():
		steps = 20_000
	}
	clock := limittest.NewClock()
	s := stepstore.New(clock.Now)
	var seen changetest.Seen
	for run := uint64(0); seen.Steps < steps; run++ {
		clock.Set(limittest.Start)
		h := changetest.New(s, clock, fmt.Sprint("key-", run), rand.New(rand.NewPCG(seed, run)), changetest.Options{})
		for range 40 {
			if err := h.Step(t.Context()); err != nil {
				t.Fatalf("history %d: %v", run, err)
			}
		}
		seen.Add(h.Seen())
	}
	t.Logf("%+v", seen)
	if seen.Changes < steps/10 || seen.Denied < steps/10 || seen.Allowed < steps/10 {
		t.Errorf("%+v: too few of each to prove anything", seen)
	}
}
