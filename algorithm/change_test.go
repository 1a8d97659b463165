package algorithm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/internal/racing"
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
	case racing.Enabled || testing.Short():
		steps = 20_000
	}
	clock := limittest.NewClock()
	s := stepstore.New(clock.Now)
	seen, err := changetest.Run(t.Context(), steps, func(run uint64) *changetest.History {
		clock.Set(limittest.Start)
		return changetest.New(s, clock, fmt.Sprint("key-", run), rand.New(rand.NewPCG(seed, run)), changetest.Options{})
	})
	if err == nil {
		err = seen.CheckVariety()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", seen)
}
