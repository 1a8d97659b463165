package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/bench/harness"
)

// fleetScenarios are the scenarios of limits that hosts share, by mode.
func fleetScenarios() []harness.Scenario {
	return slices.Concat(leaseScenarios(), manyKeysScenarios(), gossipScenarios(), soakScenarios())
}

// fleetMethod describes how shared limits are measured.
func fleetMethod(b *strings.Builder, r *harness.Results) {
	leaseMethod(b, r)
	b.WriteString("- Many keys are asked for at random times, by 256 goroutines of one node. No key reaches its limit.\n")
	gossipMethod(b, r)
	soakMethod(b, r)
}

// fleetBars returns the bars of all scenarios. The bar of a scenario that was not run is unmeasured.
func fleetBars(r *harness.Results) []harness.Bar {
	var bars []harness.Bar
	for _, s := range fleetScenarios() {
		measured := false
		for i := range r.Fleet {
			if t := &r.Fleet[i]; t.Scenario == s.Name {
				bars = append(bars, t.Bars...)
				measured = true
			}
		}
		if !measured {
			bars = append(bars, harness.UnmeasuredBar(s.Name, "its bars"))
		}
	}
	return bars
}

// reportFleet writes the tables.
func reportFleet(b *strings.Builder, r *harness.Results) {
	for i := range r.Fleet {
		t := &r.Fleet[i]
		fmt.Fprintf(b, "\n### %s\n\n| %s |\n|---%s|\n", t.Title, strings.Join(t.Columns, " | "),
			strings.Repeat("|--:", len(t.Columns)-1))
		for _, row := range t.Rows {
			fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		}
	}
}
