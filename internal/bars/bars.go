// Package bars says what a test has measured of something that was promised, in a form that the benchmark puts into its report.
package bars

import (
	"fmt"
	"strings"
	"testing"
)

// A Bar is a promise about a figure, and what came of it.
type Bar struct {
	What, Want, Got string
	Met             bool
}

const (
	mark = "bar: "
	met  = "met"
	not  = "not met"
)

// Hold logs what was measured, and fails the test if it is not what was promised.
func Hold(t testing.TB, what, want, got string, isMet bool) {
	t.Helper()
	t.Log(Bar{what, want, got, isMet})
	if !isMet {
		t.Fail()
	}
}

// String writes a bar as Parse reads it.
func (b Bar) String() string {
	verdict := not
	if b.Met {
		verdict = met
	}
	return fmt.Sprintf("%s%s | %s | %s | %s", mark, b.What, b.Want, b.Got, verdict)
}

// Parse reads a line that a test has logged. It is false if that is no bar.
func Parse(line string) (Bar, bool) {
	text, ok := strings.CutPrefix(line, mark)
	parts := strings.Split(text, " | ")
	if !ok || len(parts) != 4 || parts[3] != met && parts[3] != not {
		return Bar{}, false
	}
	return Bar{parts[0], parts[1], parts[2], parts[3] == met}, true
}
