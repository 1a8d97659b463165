//go:build !race

package whatif_test

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/server/whatif"
)

func TestSampleOfANodeGivesTheTruthInItsInterval(t *testing.T) {
	if testing.Short() {
		t.Skip("replays twenty logs")
	}
	inForce := compile(t, `rules: [{ id: a, key: user, limits: 1000/s }]`)
	proposed := compile(t, `rules: [{ id: a, key: user, limits: 10/m }]`)
	inDenied, inAffected, least := 0, 0, int64(math.MaxInt64)
	for seed := range uint64(20) {
		list := burstyTraffic(100+seed, 1000, 60*time.Second)
		denied, affected := enforce(t, proposed, list)
		got := run(t, whatif.FromSamples(record(t, inForce, list, 1, 40<<10)), whatif.Proposal{Set: proposed, Rule: "a"})
		if got.Denied.Low <= denied && denied <= got.Denied.High {
			inDenied++
		} else {
			t.Logf("denied %d, got %+v", denied, got.Denied)
		}
		if got.Affected.Low <= affected && affected <= got.Affected.High {
			inAffected++
		} else {
			t.Logf("affected %d, got %+v", affected, got.Affected)
		}
		least = min(least, got.SampledOneIn)
	}
	t.Logf("truth in %d and %d of 20 intervals, sampled one in at least %d", inDenied, inAffected, least)
	if inDenied < 18 || inAffected < 18 || least < 2 {
		t.Errorf("got the truth in %d of 20 intervals for denied requests and %d for clients, want 18; one in %d", inDenied,
			inAffected, least)
	}
}

func TestTruthIsInTheIntervalInEighteenOfTwentyRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("replays twenty logs")
	}
	set := compile(t, `rules: [{ id: a, key: user, limits: 10/m }]`)
	inDenied, inAffected, widest := 0, 0, 0.0
	for seed := range uint64(20) {
		list := burstyTraffic(seed, 1000, 30*time.Second)
		whole := readLog(t, set, list, 0)
		denied, affected := enforce(t, set, list)
		for _, c := range whole.Clients {
			c.AlwaysSampled = c.Requests() >= 30 // as nodes hold clients with a request a second
		}
		whole.Thin(4)
		got := run(t, whole, whatif.Proposal{Set: set, Rule: "a"})
		if got.Denied.Low <= denied && denied <= got.Denied.High {
			inDenied++
		}
		if got.Affected.Low <= affected && affected <= got.Affected.High {
			inAffected++
		}
		widest = max(widest, float64(got.Affected.High-got.Affected.Low)/float64(affected))
	}
	if inDenied < 18 || inAffected < 18 {
		t.Errorf("got the truth in %d of 20 intervals for denied requests and %d for clients, want 18", inDenied, inAffected)
	}
	t.Logf("denied %d, clients %d of 20; widest interval %.2f of the truth", inDenied, inAffected, widest)
	if widest > 1.5 {
		t.Errorf("got an interval of %.0f %% of the truth, which says little", 100*widest)
	}
}
