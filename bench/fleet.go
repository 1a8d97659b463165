package main

import (
	"fmt"
	"slices"
	"strings"
)

// A fleetTable is what one scenario measured of limits that hosts share, ready for the report, and the bars it is held
// against.
type fleetTable struct {
	Scenario string
	Title    string
	Columns  []string
	Rows     [][]string
	Bars     []bar
}

// fleetScenarios are those of limits that hosts share, mode by mode.
func fleetScenarios() []scenario {
	return slices.Concat(leaseScenarios(), gossipScenarios(), soakScenarios())
}

// fleetMethod says how they are measured.
func fleetMethod(b *strings.Builder, r *results) {
	leaseMethod(b, r)
	gossipMethod(b, r)
	soakMethod(b, r)
}

// fleetBars are the bars of all scenarios. One that was not run says so.
func fleetBars(r *results) []bar {
	var bars []bar
	for _, s := range fleetScenarios() {
		measured := false
		for i := range r.Fleet {
			if t := &r.Fleet[i]; t.Scenario == s.name {
				bars = append(bars, t.Bars...)
				measured = true
			}
		}
		if !measured {
			bars = append(bars, unmeasured(s.name, "its bars"))
		}
	}
	return bars
}

// reportFleet writes the tables.
func reportFleet(b *strings.Builder, r *results) {
	for i := range r.Fleet {
		t := &r.Fleet[i]
		fmt.Fprintf(b, "\n### %s\n\n| %s |\n|---%s|\n", t.Title, strings.Join(t.Columns, " | "), strings.Repeat("|--:", len(t.Columns)-1))
		for _, row := range t.Rows {
			fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		}
	}
}
