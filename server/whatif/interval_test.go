//go:build !race

package whatif_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/server/whatif"
)

// intervalRuns is the number of runs with samples of different clients. At least intervalHits intervals must have the
// truth: 90 %, as an interval of 95 % sometimes has less luck.
const (
	intervalRuns = 100
	intervalHits = 90
)

func TestSampleOfANodeGivesTheTruthInItsInterval(t *testing.T) {
	if testing.Short() {
		t.Skip("replays a hundred logs")
	}
	inForce := compile(t, `rules: [{ id: a, key: user, limits: 1000/s }]`)
	proposed := compile(t, `rules: [{ id: a, key: user, limits: 10/m }]`)
	inDenied, inAffected, least := 0, 0, int64(math.MaxInt64)
	for seed := range uint64(intervalRuns) {
		list := burstyTraffic(1000+seed, 1000, 60*time.Second)
		for i := range list {
			list[i].user += fmt.Sprintf("-%d", seed) // other hashes, so that others are sampled
		}
		denied, affected := enforce(t, proposed, list)
		got := run(t, whatif.FromSamples(record(t, inForce, list, 1, 40<<10)), whatif.Proposal{Set: proposed, Rule: "a"})
		if got.Denied.Low <= denied && denied <= got.Denied.High {
			inDenied++
		}
		if got.Affected.Low <= affected && affected <= got.Affected.High {
			inAffected++
		}
		least = min(least, got.SampledOneIn)
	}
	t.Logf("denied %d, clients %d of %d; sampled one in at least %d", inDenied, inAffected, intervalRuns, least)
	if inDenied < intervalHits || inAffected < intervalHits || least < 2 {
		t.Errorf("got the truth in %d of %d intervals for denied requests and %d for clients, want %d; one in %d", inDenied,
			intervalRuns, inAffected, intervalHits, least)
	}
}

func TestThinnedLogGivesTheTruthInItsInterval(t *testing.T) {
	if testing.Short() {
		t.Skip("replays a hundred logs")
	}
	set := compile(t, `rules: [{ id: a, key: user, limits: 10/m }]`)
	inDenied, inAffected, widest := 0, 0, 0.0
	for seed := range uint64(intervalRuns) {
		list := burstyTraffic(seed, 1000, 30*time.Second)
		whole := readLog(t, set, list, 0)
		denied, affected := enforce(t, set, list)
		random := rand.New(rand.NewPCG(seed, 2))
		for _, c := range whole.Clients {
			c.Key = random.Uint64()
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
	t.Logf("denied %d, clients %d of %d; widest interval %.2f of the truth", inDenied, inAffected, intervalRuns, widest)
	if inDenied < intervalHits || inAffected < intervalHits {
		t.Errorf("got the truth in %d of %d intervals for denied requests and %d for clients, want %d", inDenied, intervalRuns,
			inAffected, intervalHits)
	}
	if widest > 1.5 {
		t.Errorf("got an interval of %.0f %% of the truth, which says little", 100*widest)
	}
}
