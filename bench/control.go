package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/bars"
)

// This file is the frame of the part "control": the rules service and its nodes. What needs processes, databases and hundreds of
// nodes is measured by tests of the packages themselves, which know their bars; a registered client's decision stands in
// control_clients.go.

func controlScenarios() []scenario {
	return []scenario{{"clients", 40, runClients}, {"rules service", 200, runControl}}
}

// controlTests are run one after the other, with the machine to themselves.
func controlTests() []faultTest {
	return []faultTest{
		{"control/follow", "TestSoakAChangeIsInForceOnFiftyNodesAtOnce", "an API write, and nodes that are told"},
		{"cmd/headgate", "TestSoakNodesPollWithin15SecondsWithoutPush", "nodes that are not told"},
		{"control/api", "TestSoakTenThousandRules", "10,000 rules in the service"},
		{"control/follow", "TestSoakTenThousandRulesAreSwappedUnderLoad", "10,000 rules on a node"},
		{"control/follow", "TestSoakOneOfAMillionClientsMovesAlone", "one of a million registered clients changes"},
		{"control/sqlite", "TestSoakAProcessThatIsKilledLeavesEachChangeWholeOrUndone", "kill -9 in the midst of writes, 200 times"},
		{"control/api", "TestTwoEditorsNeverLoseAnUpdate", "two editors at once"},
		{"cmd/headgate", "TestNodeFollowsARulesService", "the service away, nodes restarted"},
		{"control/api", "TestFiveHundredNodesComeBackAtOnce", "500 nodes that come back at once"},
		{"control/api", "TestPermissionsOfEveryRoleOnEveryRouteInEveryNamespace", "every role on every route in every namespace"},
	}
}

// runControl runs the tests of the rules service.
func runControl(ctx context.Context, b *bench) error {
	list := controlTests()
	if b.results.Quick {
		list = list[6:7]
	}
	for i, f := range list {
		b.progress.at(float64(i)/float64(len(list)), "rules service", f.what)
		row, err := runFault(ctx, f, "HEADGATE_SOAK=1") // some are too long for every day
		if err != nil {
			return err
		}
		b.results.Control = append(b.results.Control, row)
	}
	return nil
}

func controlMethod(b *strings.Builder, r *results) {
	fmt.Fprintf(b, `- A decision for a registered client is measured beside one for somebody who is not, in one process and in turns, %d rounds of
  %s decisions. All have %s live keys in a memory store of their own and come under the same rule, picked at random. Every
  request has its own copy of its key, which was read a moment ago, as in a server. Who is not registered is looked up in vain
  where as many others are; where nobody is, nothing is looked up.
- All else are tests of the rules service, each run on its own: with real databases and processes, and with nodes that are in
  processes of their own or follow the service over loopback. They hold what they measure against the bars.
`, r.Sizes.Rounds, grouped(fmt.Sprint(r.Sizes.ClientOps)), humanCount(r.Sizes.Clients))
}

// reportControl writes what the tests said besides their bars.
func reportControl(b *strings.Builder, r *results) {
	if r.Clients != nil {
		fmt.Fprintf(b, "\n%s registered clients, each with a limit of its own, take %.0f MiB of a node's memory, %.0f bytes each (%.0f MiB of its heap).\n",
			humanCount(r.Clients.Clients), mib(r.Clients.RSS), float64(r.Clients.RSS)/float64(r.Clients.Clients), mib(r.Clients.Heap))
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

// controlBars holds the results of the rules service against its bars.
func controlBars(r *results) []bar {
	list := clientBars(r)
	passed := 0
	for _, f := range r.Control {
		if f.Passed {
			passed++
		}
		for _, line := range f.Said {
			if held, ok := bars.Parse(line); ok {
				list = append(list, judged(held.What, held.Want, held.Got, held.Met))
			}
		}
	}
	const what, want = "the tests of the rules service", "all pass"
	if len(r.Control) == 0 {
		return append(list, unmeasured(what, want))
	}
	return append(list, judged(what, want, fmt.Sprintf("%d of %d", passed, len(r.Control)), passed == len(r.Control)))
}
