package sim_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/racing"
)

// Three regions of two nodes each. A client sends 60 requests per second to all of them, and may have 20.
const threeRegions = `
duration: 20s
nodes: 2
limits: [20/s]
modes: [%s]
regions: { count: 3, delay: 20ms, sync_interval: 200ms }
traffic: [{ rate: 60 }]
%s
`

func TestRegionsShareALimit(t *testing.T) {
	t.Parallel()
	// 20 + 20·20 units, and at the start no region knows of the others.
	const allowed, once = 420, 40
	for _, mode := range []string{"exact", "lease", "async"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := run(t, fmt.Sprintf(threeRegions, mode, "")).Results[0]
			if r.Admitted < allowed*8/10 || r.Admitted > allowed+once {
				t.Errorf("admitted %d, want %d to %d", r.Admitted, allowed*8/10, allowed+once)
			}
			if r.BytesBetweenRegions == 0 || r.BytesBetweenRegions >= r.BytesSent || r.Nodes != 6 {
				t.Errorf("%d of %d bytes between regions, %d nodes, want some, and 6 nodes", r.BytesBetweenRegions, r.BytesSent, r.Nodes)
			}
		})
	}
}

func TestARegionThatIsCutOffUsesTheWholeLimit(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exact", "lease"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			whole := run(t, fmt.Sprintf(threeRegions, mode, "")).Results[0].Admitted
			cut := run(t, fmt.Sprintf(threeRegions, mode,
				"faults: [{ kind: region-partition, at: 5s, for: 10s, regions: [0, 1] }]")).Results[0].Admitted
			// The third region is alone for 10 s, and admits all of its 20 requests per second. Then it repays them.
			if more := cut - whole; more < 60 || more > 200 {
				t.Errorf("admitted %d more than without the partition, want 60 to 200", more)
			}
		})
	}
}

func TestASourceOfOneRegionSendsOnlyThere(t *testing.T) {
	t.Parallel()
	const text = `
duration: 5s
limits: [1000/s]
modes: [exact]
regions: { count: 2 }
traffic: [{ rate: 50, region: 1 }]
faults: [{ kind: crash, at: 1ms, regions: [%d] }]
`
	if r := run(t, fmt.Sprintf(text, 0)).Results[0]; r.Unserved != 0 || r.Admitted != r.Requests {
		t.Errorf("%d of %d requests found no node although only the other region is down", r.Unserved, r.Requests)
	}
	if r := run(t, fmt.Sprintf(text, 1)).Results[0]; r.Unserved < r.Requests-1 {
		t.Errorf("%d of %d requests found no node, want all", r.Unserved, r.Requests)
	}
}

func TestRegionsGiveTheSameResultsAgain(t *testing.T) {
	racing.Skip(t, "one goroutine at a time runs, so there are no races")
	t.Parallel()
	const faults = `faults:
  - { kind: join, at: 1s, count: 2, regions: [1] }
  - { kind: failover, at: 4s, for: 300ms, global: true }
  - { kind: failover, at: 6s, for: 300ms, regions: [2] }
  - { kind: lossy, at: 8s, for: 2s, loss: 20, between_regions: true }
  - { kind: crash, at: 12s, for: 1s, regions: [0] }
`
	encode := func() string {
		data, err := json.Marshal(run(t, fmt.Sprintf(threeRegions, "exact, lease, async", faults)))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if first, second := encode(), encode(); first != second {
		t.Errorf("two runs with the same seed differ:\n%s\n%s", first, second)
	}
}
