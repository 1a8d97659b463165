package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/internal/bars"
)

// This file has the part "control": the rules service and its nodes. Measurements that need processes, databases or
// hundreds of nodes are tests of the packages, which check their own bars. Decisions for registered clients are
// measured in clients.go.

func controlScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "clients", Seconds: 40, Run: runClients},
		{Name: "rules service", Seconds: 200, Run: runControl},
	}
}

// controlTests run one after the other, and nothing else runs on the machine.
func controlTests() []harness.GoTest {
	return []harness.GoTest{
		{
			Pkg: "server/control/follow", Name: "TestSoakChangeIsInForceOnFiftyNodes",
			What: "an API write, and nodes that are told",
		},
		{Pkg: "server/cmd/headgate", Name: "TestSoakNodesPollWithin15SecondsWithoutPush", What: "nodes that are not told"},
		{Pkg: "server/control/api", Name: "TestSoakTenThousandRules", What: "10,000 rules in the service"},
		{Pkg: "bench/control", Name: "TestSoakTenThousandRulesAreSwappedUnderLoad", What: "10,000 rules on a node"},
		{
			Pkg: "server/control/follow", Name: "TestSoakChangingOneOfAMillionClients",
			What: "one of a million registered clients changes",
		},
		{
			Pkg: "server/control/sqlite", Name: "TestSoakKilledProcessLeavesChangesAtomic",
			What: "kill -9 in the midst of writes, 200 times",
		},
		{Pkg: "server/control/api", Name: "TestTwoEditorsNeverLoseAnUpdate", What: "two editors at once"},
		{Pkg: "server/cmd/headgate", Name: "TestNodeFollowsARulesService", What: "the service away, nodes restarted"},
		{Pkg: "server/control/api", Name: "TestFiveHundredNodesReconnectAtOnce", What: "500 nodes that come back at once"},
		{
			Pkg: "server/control/api", Name: "TestPermissionsOfEveryRoleOnEveryRoute",
			What: "every role on every route in every namespace",
		},
	}
}

// runControl runs the tests of the rules service.
func runControl(ctx context.Context, b *harness.Bench) error {
	list := controlTests()
	if b.Results.Quick {
		list = list[6:7]
	}
	for i, f := range list {
		b.Progress.At(float64(i)/float64(len(list)), "rules service", f.What)
		row, err := harness.RunGoTest(ctx, f, "HEADGATE_SOAK=1") // some are too long for every day
		if err != nil {
			return err
		}
		b.Results.Control = append(b.Results.Control, row)
	}
	return nil
}

func controlMethod(b *strings.Builder, r *harness.Results) {
	fmt.Fprintf(b, `- A decision for a registered client is measured beside one for somebody who is not, in one process and in turns, %d rounds of
  %s decisions. All have %s live keys in a memory store of their own and come under the same rule, picked at random. Every
  request has its own copy of its key, which was read a moment ago, as in a server. Who is not registered is looked up in vain
  where as many others are; where nobody is, nothing is looked up.
- All else are tests of the rules service, each run on its own: with real databases and processes, and with nodes that are in
  processes of their own or follow the service over loopback. They hold what they measure against the bars.
`, r.Sizes.Rounds, harness.Grouped(fmt.Sprint(r.Sizes.ClientOps)), harness.HumanCount(r.Sizes.Clients))
}

// reportControl writes the results of the tests, except their bars.
func reportControl(b *strings.Builder, r *harness.Results) {
	if r.Clients != nil {
		fmt.Fprintf(b, "\n%s registered clients, each with a limit of its own, take %.0f MiB of a node's memory, %.0f bytes each (%.0f MiB of its heap).\n",
			harness.HumanCount(r.Clients.Clients), harness.Mib(r.Clients.RSS), float64(r.Clients.RSS)/float64(
				r.Clients.Clients), harness.Mib(r.Clients.Heap))
	}
	if len(r.Control) == 0 {
		return
	}
	b.WriteString("\n### Tests\n\n| what | measured | |\n|---|---|---|\n")
	for _, f := range r.Control {
		var said []string
		for _, line := range f.Said {
			if _, ok := bars.Parse(line); !ok {
				said = append(said, line)
			}
		}
		verdict := "passed"
		if !f.Passed {
			verdict = "**failed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", f.What, strings.ReplaceAll(strings.Join(said, "<br>"), "|", `\|`), verdict)
	}
}

// controlBars compares the results of the rules service with its bars.
func controlBars(r *harness.Results) []harness.Bar {
	list := clientBars(r)
	passed := 0
	for _, f := range r.Control {
		if f.Passed {
			passed++
		}
		for _, line := range f.Said {
			if held, ok := bars.Parse(line); ok {
				list = append(list, harness.JudgedBar(held.What, held.Want, held.Got, held.Met))
			}
		}
	}
	const what, want = "the tests of the rules service", "all pass"
	if len(r.Control) == 0 {
		return append(list, harness.UnmeasuredBar(what, want))
	}
	return append(list, harness.JudgedBar(what, want, fmt.Sprintf("%d of %d", passed, len(r.Control)),
		passed == len(r.Control)))
}
