// Package bars reports measurements of tests against their targets, in a form that the benchmark report includes.
package bars

import (
	"fmt"
	"strings"
	"testing"
)

// A Bar is the target for a figure, and the measured value.
type Bar struct {
	What, Want, Got string
	Met             bool
}

const (
	prefix = "bar: "
	met    = "met"
	notMet = "not met"
)

// Hold logs a measurement, and fails the test if it misses its target.
func Hold(t testing.TB, what, want, got string, isMet bool) {
	t.Helper()
	t.Log(Bar{what, want, got, isMet})
	if !isMet {
		t.Fail()
	}
}

// String formats a bar for Parse.
func (b Bar) String() string {
	verdict := notMet
	if b.Met {
		verdict = met
	}
	return fmt.Sprintf("%s%s | %s | %s | %s", prefix, b.What, b.Want, b.Got, verdict)
}

// Parse parses a line that a test has logged. It returns false if the line is not a bar.
func Parse(line string) (Bar, bool) {
	text, ok := strings.CutPrefix(line, prefix)
	parts := strings.Split(text, " | ")
	if !ok || len(parts) != 4 || parts[3] != met && parts[3] != notMet {
		return Bar{}, false
	}
	return Bar{parts[0], parts[1], parts[2], parts[3] == met}, true
}
