package fleet

import (
	"context"
	"strings"

	"github.com/headgate/headgate/bench/harness"
)

// fleetSoaks are the long tests of limits that hosts share: with processes that are killed, a Redis Cluster, and a
// network that loses packets. The tests check their results themselves, as in make soak.
func fleetSoaks() []soakTest {
	return []soakTest{
		{
			harness.GoTest{
				Pkg: "server/fleet/lease", Name: "TestSoakLease",
				What: "lease, 4 processes, 10 × the limit, for a minute each",
			},
			"never above burst + rate·t, nor in any interval above burst + rate·(t + 100 ms), nor a window's count; ≥ 99 % used, ≥ 96.6 % with nodes killed and added",
		},
		{
			harness.GoTest{
				Pkg: "server/fleet/async", Name: "TestSoakAsyncOnRedisClusterStaysWithinItsBound",
				What: "async at 100 ms, 4 nodes, 1,000/s, for a minute",
			},
			"never above min((N−1)(R+rS), (λ−r)S); ≤ 0.5 % over at the end",
		},
		{
			harness.GoTest{
				Pkg: "server/fleet/gossip", Name: "TestSoakGossipOfTenHosts",
				What: "gossip, 10 hosts, 20 % of packets lost, 50 ms on the way, cut in two for 5 s, for ten minutes",
			},
			"never above the bound with S = 1 s; within 1 % at the end",
		},
	}
}

// A soakTest is a long test, and the results that it requires.
type soakTest struct {
	harness.GoTest
	want string
}

func soakScenarios() []harness.Scenario {
	return []harness.Scenario{{Name: "fleet-soaks", Seconds: 960, Run: runFleetSoaks}}
}

func soakMethod(b *strings.Builder, _ *harness.Results) {
	b.WriteString("- The long runs are the tests of `fleet` that are named `Soak`, each on its own. They count every request that passes, when it was asked and\n" +
		"  when it was answered, and fail if more pass than may, at any time. Here is what they say of it.\n")
}

// runFleetSoaks runs the long tests. A quick run has only one test, which is shorter.
func runFleetSoaks(ctx context.Context, b *harness.Bench) error {
	list, env := fleetSoaks(), []string{"HEADGATE_SOAK=1"}
	if b.Results.Quick {
		list, env = list[1:2], nil
	}
	table := harness.FleetTable{Scenario: "fleet-soaks", Title: "Long runs", Columns: []string{"what", "measured"}}
	for i, test := range list {
		b.Progress.At(float64(i)/float64(len(list)), "long runs", test.What)
		row, err := harness.RunGoTest(ctx, test.GoTest, env...)
		if err != nil {
			return err
		}
		addSoak(&table, test, &row)
	}
	b.Results.Fleet = append(b.Results.Fleet, table)
	return nil
}

// addSoak records the log of a long test.
func addSoak(t *harness.FleetTable, test soakTest, row *harness.TestRow) {
	said := strings.ReplaceAll(strings.Join(row.Said, "<br>"), "|", `\|`)
	t.Rows = append(t.Rows, []string{test.What, said})
	measured := "it holds"
	if !row.Passed {
		measured = "it does not"
	}
	t.Bars = append(t.Bars, harness.JudgedBar(test.What, test.want, measured, row.Passed))
}
