package harness

import (
	"context"
	"strings"
)

// A Part is a group of scenarios that are measured, reported and published together. Ratios are formed within a part
// only, from measurements of the same run on the same machine.
type Part struct {
	Name      string
	Title     string
	Scenarios []Scenario
	Versions  func(context.Context) []ModuleVersion // of peers, for the report; nil without peers
	Method    func(*strings.Builder, *Results)
	Report    func(*strings.Builder, *Results) // its own tables
	Bars      func(*Results) []Bar
}
