package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/sim/scenario"
)

// hasRegions reports whether the scenario of a seed has several regions.
func hasRegions(seed int) bool {
	return sweepModes[seed%len(sweepModes)] != "gossip" && sweepModes[seed%len(sweepModes)] != "local" && seed/len(sweepModes)%4 == 0
}

// randomRegions returns a scenario with several regions that depends on a seed alone.
func randomRegions(t *testing.T, seed int, r *rand.Rand) *scenario.Scenario {
	t.Helper()
	count := 5 + r.IntN(300)
	return parseRandom(t, seed, fmt.Sprintf(`
seed: %d
duration: 10s
nodes: %d
limits: [%d/s]
modes: [%s]
on_failure: closed
redis: { shards: %d }
network: { delay: %dus }
regions: { count: %d, delay: %dms, distribution: uniform, sync_interval: %dms }
traffic: [{ rate: %d, clients: 3, until: 2500ms }]
faults:
  - { kind: join, at: %dms, count: 1, regions: [1] }
`, seed, 1+r.IntN(3), count, sweepModes[seed%len(sweepModes)], 1+r.IntN(2), 100+r.IntN(900), 2+r.IntN(2), 1+r.IntN(30),
		100+r.IntN(400), 3*count*(1+r.IntN(4)), 200+r.IntN(500)))
}

// regionUpdateAge returns how old updates of other regions are at most: an interval and two messages, each of which
// takes at most twice its mean.
func regionUpdateAge(s *scenario.Scenario) time.Duration {
	return s.Regions.SyncInterval + 4**s.Regions.Delay
}

// maxRegionExcess returns by how many units a client may be above its limit if regions share it.
func maxRegionExcess(s *scenario.Scenario, v scenario.Variant) int64 {
	l := v.Limits[0]
	switch v.Mode {
	case rules.Async:
		return asyncExcess(s, l, float64(s.AllNodes()), regionUpdateAge(s))
	case rules.Lease:
		leased := float64(l.Count) / l.Period.Seconds() * 0.1 * float64(s.Regions.Count)
		return asyncExcess(s, l, float64(s.Regions.Count-1), regionUpdateAge(s)) + int64(leased)
	default:
		return asyncExcess(s, l, float64(s.Regions.Count-1), regionUpdateAge(s))
	}
}
