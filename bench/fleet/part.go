package fleet

import (
	"github.com/headgate/headgate/bench/harness"
)

// Part returns the part that measures limits across hosts.
func Part() harness.Part {
	return harness.Part{
		Name: "fleet", Title: "Across hosts", Scenarios: fleetScenarios(), Versions: nil,
		Method: fleetMethod, Report: reportFleet, Bars: fleetBars,
	}
}
