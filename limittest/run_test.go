package limittest

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

func newStore(_ testing.TB, now func() time.Time) headgate.Limiter { return stepstore.New(now) }

// TestSuitePassesOnTheSteps also proves that the suite does with little.
func TestSuitePassesOnTheSteps(t *testing.T) {
	for _, seed := range []uint64{2, 3} {
		RunOptions(t, newStore, Options{Steps: 60, Goroutines: 20, Seed: seed})
	}
}

// TestHistoriesComeBack proves that a seed decides the whole history.
func TestHistoriesComeBack(t *testing.T) {
	l := headgate.MustParseLimit("7/s burst 3")
	history := func(seed uint64) ledger {
		c := suiteTest{group: "bound", name: "x"}
		tr := newTrial(t, c, newStore, Options{Seed: seed}.withDefaults())
		return *tr.history(l, func() { tr.jumpClock(l) })
	}
	equal := func(a, b ledger) bool {
		if len(a.entries) != len(b.entries) {
			return false
		}
		for i := range a.entries {
			if a.entries[i] != b.entries[i] {
				return false
			}
		}
		return true
	}
	if !equal(history(1), history(1)) {
		t.Error("one seed, two histories")
	}
	if equal(history(1), history(2)) {
		t.Error("two seeds, one history")
	}
}
