package core

import (
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// Part returns the part that measures limiters in one process.
func Part() harness.Part {
	return harness.Part{
		Name: "core", Title: "In process", Scenarios: coreScenarios(),
		Versions: limiters.Linked(limiters.Entries()), Method: coreMethod, Report: reportCore, Bars: Bars,
	}
}
