package scenario_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

func TestRegionsHaveDefaults(t *testing.T) {
	s, err := scenario.Parse("x.yaml", []byte(
		"duration: 1m\nnodes: 3\nlimits: [10/s]\nmodes: [exact]\nregions: { count: 4 }\ntraffic: [{ rate: 5, region: 3 }]"))
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Regions; *r.Delay != 40*time.Millisecond || r.SyncInterval != time.Second || s.AllNodes() != 12 {
		t.Errorf("delay %v, interval %v, %d nodes, want 40ms, 1s and 12", *r.Delay, r.SyncInterval, s.AllNodes())
	}
}

func TestBadRegionsAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	const world = "duration: 1m\nlimits: [10/s]\nmodes: [exact]\nregions: { count: 3 }\ntraffic: [{ rate: 5 }]\n"
	for _, c := range []struct{ name, text, want string }{
		{"one region", strings.Replace(world, "3", "1", 1), "x.yaml:4:19: regions.count: 1: want 2 to 100"},
		{"typo", strings.Replace(world, "count", "cuont", 1), "x.yaml:4:12: regions.cuont: unknown field"},
		{"mode", strings.Replace(world, "exact", "gossip", 1), "x.yaml:3:9: modes[0]: gossip: want exact, lease or async"},
		{"algorithm", strings.Replace(world, "10/s", "10/s sliding-log", 1), "want an algorithm that regions can share"},
		{"too many nodes", world + "nodes: 5000", "5000 in each of 3 regions: want at most 10000 in all"},
		{"interval", strings.Replace(world, "3 }", "3, sync_interval: 1m }", 1), "regions.sync_interval: 1m0s: want 10ms to 20s"},
		{"source", strings.Replace(world, "rate: 5", "rate: 5, region: 3", 1), "x.yaml:5:30: traffic[0].region: 3: want 0 to 2"},
		{"fault", world + "faults: [{ kind: region-partition, at: 1s }]", "faults[0].regions: no regions: want the regions"},
		{"fault region", world + "faults: [{ kind: crash, at: 1s, regions: [3] }]", "faults[0].regions[0]: 3: want 0 to 2"},
		{"two places", world + "faults: [{ kind: failover, at: 1s, regions: [1], global: true }]", "want one of them"},
		{
			"without regions", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\nfaults: [{ kind: slow, at: 1s, delay: 1s, " +
				"between_regions: true }]",
			"x.yaml:4:60: faults[0].between_regions: a fault of regions: want regions",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := scenario.Parse("x.yaml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
