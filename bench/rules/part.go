package rules

import (
	"github.com/headgate/headgate/bench/harness"
)

// Part returns the part that measures rule matching and decisions.
func Part() harness.Part {
	return harness.Part{
		Name: "rules", Title: "Rules and decisions", Scenarios: rulesScenarios(), Versions: nil,
		Method: rulesMethod, Report: reportRules, Bars: rulesBars,
	}
}
