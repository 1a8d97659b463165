package memstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/internal/racing"
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
	case racing.Enabled: // one goroutine makes the steps
		steps = 5_000
	case testing.Short():
		steps = 20_000
	}
	t.Run("to the microsecond", func(t *testing.T) {
		seen := followChanges(t, steps, func(s *Store) changetest.Options {
			return changetest.Options{Accept: func(l headgate.Limit) bool { return s.rounding(t, l) == 0 }}
		})
		if seen.Rounded > 0 {
			t.Errorf("%d steps were not compared exactly", seen.Rounded)
		}
	})
	t.Run("to the grain", func(t *testing.T) {
		seen := followChanges(t, steps, func(s *Store) changetest.Options {
			return changetest.Options{Rounding: func(l headgate.Limit) int64 { return s.rounding(t, l) }}
		})
		if seen.Rounded < steps/20 || seen.Rounded > steps/2 {
			t.Errorf("%d of %d steps were not compared exactly", seen.Rounded, steps)
		}
	})
}

// rounding returns the largest time by which the store rounds up the time of the latest decision under a limit.
func (s *Store) rounding(t *testing.T, l headgate.Limit) int64 {
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
