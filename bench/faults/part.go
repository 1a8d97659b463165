package faults

import (
	"github.com/headgate/headgate/bench/harness"
)

// Part returns the part that measures decisions while Redis fails.
func Part() harness.Part {
	scenarios := []harness.Scenario{{Name: "faults", Seconds: 180, Run: runFaults}}
	return harness.Part{
		Name: "faults", Title: "When Redis fails", Scenarios: scenarios, Versions: nil,
		Method: faultsMethod, Report: reportFaults, Bars: faultBars,
	}
}
