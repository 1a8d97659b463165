package main

import (
	"context"
	"strings"
)

// fleetSoaks are the long tests of limits that hosts share: with processes that are killed, a cluster of Redis, and a network
// that loses packets. What they must show, they check themselves, as they do in make soak.
func fleetSoaks() []soakTest {
	return []soakTest{
		{
			faultTest{"fleet", "TestSoakLease", "lease, 4 processes, 10 × the limit, for a minute each"},
			"never above burst + rate·t, nor in any interval above burst + rate·(t + 100 ms), nor a window's count; ≥ 99 % used, ≥ 96.6 % with nodes killed and added",
		},
		{
			faultTest{"fleet", "TestSoakAsyncOnRedisClusterStaysWithinItsBound", "async at 100 ms, 4 nodes, 1,000/s, for a minute"},
			"never above min((N−1)(R+rS), (λ−r)S); ≤ 0.5 % over at the end",
		},
		{
			faultTest{"fleet", "TestSoakGossipOfTenHosts", "gossip, 10 hosts, 20 % of packets lost, 50 ms on the way, cut in two for 5 s, for ten minutes"},
			"never above the bound with S = 1 s; within 1 % at the end",
		},
	}
}

// A soakTest is a long test, and what it insists on.
type soakTest struct {
	faultTest
	want string
}

func soakScenarios() []scenario { return []scenario{{"fleet-soaks", 960, runFleetSoaks}} }

func soakMethod(b *strings.Builder, _ *results) {
	b.WriteString("- The long runs are the tests of `fleet` that are named `Soak`, each on its own. They count every request that passes, when it was asked and\n" +
		"  when it was answered, and fail if more pass than may, at any time. Here is what they say of it.\n")
}

// runFleetSoaks runs the long tests; a quick run has but one, and a short one.
func runFleetSoaks(ctx context.Context, b *bench) error {
	list, env := fleetSoaks(), []string{"HEADGATE_SOAK=1"}
	if b.results.Quick {
		list, env = list[1:2], nil
	}
	table := fleetTable{Scenario: "fleet-soaks", Title: "Long runs", Columns: []string{"what", "measured"}}
	for i, test := range list {
		b.progress.at(float64(i)/float64(len(list)), "long runs", test.what)
		row, err := runFault(ctx, test.faultTest, env...)
		if err != nil {
			return err
		}
		table.add(test, &row)
	}
	b.results.Fleet = append(b.results.Fleet, table)
	return nil
}

// add notes what a long test said.
func (t *fleetTable) add(test soakTest, row *faultRow) {
	said := strings.ReplaceAll(strings.Join(row.Said, "<br>"), "|", `\|`)
	t.Rows = append(t.Rows, []string{test.what, said})
	measured := "it holds"
	if !row.Passed {
		measured = "it does not"
	}
	t.Bars = append(t.Bars, judged(test.what, test.want, measured, row.Passed))
}
