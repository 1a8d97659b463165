// Package racing says whether the race detector is on, which makes tests about ten times slower and takes memory.
//
// make test runs all tests with the race detector. It runs those in files that import this package, or that have the
// build tag !race, without it as well: they check more then, or with larger numbers.
package racing

import "testing"

// Skip skips a test if the race detector is on. why says what the test would not show then.
func Skip(t testing.TB, why string) {
	t.Helper()
	if Enabled {
		t.Skip("not with the race detector: " + why)
	}
}
