package memstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/limittest"
)

// TestChangedLimitsAgreeWithOracle changes rate, period, burst, algorithm and alignment of limits at random times.
// Among limits whose words keep the time of the latest decision to the microsecond, and those that have records, there
// is no difference. Among others a change may count from a grain later, and a unit more: what remains is within that.
// HEADGATE_SOAK=1 makes it a million steps of each.
func TestChangedLimitsAgreeWithOracle(t *testing.T) {
	steps := 100_000
	switch {
	case os.Getenv("HEADGATE_SOAK") == "1":
		steps = 1_000_000
	case slower > 1: // one goroutine makes the steps
		steps = 5_000
	case testing.Short():
		steps = 20_000
	}
	t.Run("to the microsecond", func(t *testing.T) {
		seen := followChanges(t, steps, func(s *Store) changetest.Options {
			return changetest.Options{Accept: func(l headgate.Limit) bool { return s.blur(t, l) == 0 }}
		})
		if seen.Blurred > 0 {
			t.Errorf("%d steps were not compared exactly", seen.Blurred)
		}
	})
	t.Run("to the grain", func(t *testing.T) {
		seen := followChanges(t, steps, func(s *Store) changetest.Options {
			return changetest.Options{Blur: func(l headgate.Limit) int64 { return s.blur(t, l) }}
		})
		if seen.Blurred < steps/20 || seen.Blurred > steps/2 {
			t.Errorf("%d of %d steps were not compared exactly", seen.Blurred, steps)
		}
	})
}

// blur returns by how much later than it was the store may believe the latest decision under a limit to have been.
func (s *Store) blur(t *testing.T, l headgate.Limit) int64 {
	t.Helper()
	p, err := s.newPlan(l)
	if err != nil {
		t.Fatal(err)
	}
	if !p.compact {
		return 0
	}
	return p.grainMask
}

func followChanges(t *testing.T, steps int, options func(*Store) changetest.Options) changetest.Seen {
	t.Helper()
	var (
		clock *limittest.Clock
		s     *Store
		o     changetest.Options
	)
	seen, err := changetest.Run(t.Context(), steps, func(run uint64) *changetest.History {
		if run%16 == 0 { // before the clock has come to where times end
			clock = limittest.NewClock()
			s = newStore(t, Options{Now: clock.Now})
			o = options(s)
		}
		return changetest.New(s, clock, fmt.Sprint("key-", run), rand.New(rand.NewPCG(20260101, run)), o)
	})
	if err == nil {
		err = seen.CheckVariety()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", seen)
	return seen
}
