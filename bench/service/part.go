package service

import (
	"github.com/headgate/headgate/bench/harness"
)

// Part returns the part that measures the decision service.
func Part() harness.Part {
	return harness.Part{
		Name: "service", Title: "The decision service", Scenarios: serviceScenarios(),
		Versions: serviceVersions, Method: serviceMethod, Report: reportService, Bars: serviceBars,
	}
}
