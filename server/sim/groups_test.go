package sim_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/scenario"
)

const grouped = `
duration: 5s
nodes: 4
groups: %d
limits: [20/s burst 40]
modes: [local, exact, lease, async]
redis: { shards: 4 }
clock_skew: 50ms
traffic: [{ rate: 1000, clients: 100, zipf: 1.2 }]
faults: [{ kind: failover, at: 2s, for: 300ms, shard: 3 }]
`

// simulateGroups runs the clients in so many groups.
func simulateGroups(t *testing.T, groups, parallel int) *sim.Results {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(fmt.Sprintf(grouped, groups)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(t.Context(), s, sim.Options{Parallel: parallel})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGroupsAreTheSameOnAnyNumberOfProcessors(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, parallel := range []int{1, 4} {
		text, err := json.Marshal(simulateGroups(t, 2, parallel))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Errorf("one and four runs at a time differ:\n%s\n%s", texts[0], texts[1])
	}
}

func TestGroupsHaveTheSameTrafficInAll(t *testing.T) {
	racing.Skip(t, "groups that run at the same time have a test of their own")
	t.Parallel()
	one, four := simulateGroups(t, 1, 0), simulateGroups(t, 4, 0)
	for i, want := range one.Results {
		got := four.Results[i]
		if got.Requests != want.Requests || got.Nodes != want.Nodes || got.Partial {
			t.Errorf("%s: %d requests on %d nodes in four groups, want %d on %d", got.Mode, got.Requests, got.Nodes,
				want.Requests, want.Nodes)
		}
		if got.Admitted*10 < want.Admitted*9 || got.Admitted*10 > want.Admitted*11 {
			t.Errorf("%s: %d admitted in four groups, want about the %d of one", got.Mode, got.Admitted, want.Admitted)
		}
		var sum int64
		for _, n := range got.Series.Requests {
			sum += n
		}
		if sum != got.Requests {
			t.Errorf("%s: the series has %d requests, want %d", got.Mode, sum, got.Requests)
		}
		if len(got.Marks) != 1 {
			t.Errorf("%s: marks %v, want the one failover", got.Mode, got.Marks)
		}
	}
}

func TestGroupsMustDivideTheShards(t *testing.T) {
	if _, err := scenario.Parse("test.yaml", []byte(fmt.Sprintf(grouped, 3))); err == nil {
		t.Error("3 groups of 4 shards were accepted")
	}
}
