package control

import (
	"github.com/headgate/headgate/bench/harness"
)

// Part returns the part that measures the rules service.
func Part() harness.Part {
	return harness.Part{
		Name: "control", Title: "The rules service", Scenarios: controlScenarios(), Versions: nil,
		Method: controlMethod, Report: reportControl, Bars: controlBars,
	}
}
