package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/bench/harness"
)

// fleetScenarios are those of limits that hosts share, mode by mode.
func fleetScenarios() []harness.Scenario {
	return slices.Concat(leaseScenarios(), gossipScenarios(), soakScenarios())
}

// fleetMethod says how they are measured.
func fleetMethod(b *strings.Builder, r *harness.Results) {
	leaseMethod(b, r)
	gossipMethod(b, r)
	soakMethod(b, r)
}

// fleetBars are the bars of all scenarios. One that was not run says so.
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
