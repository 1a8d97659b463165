// Package attempts is for tests of how quick something is, which a busy machine can spoil but never help: it lets them try
// several times.
package attempts

import "testing"

// OneOf runs try up to so many times, until it returns no error, and fails the test when none has held. What must hold however
// busy the machine is belongs outside of try, or in an error of the test itself, which ends the attempts.
func OneOf(t testing.TB, most int, try func() error) {
	t.Helper()
	for n := 1; ; n++ {
		err := try()
		if err == nil || t.Failed() {
			return
		}
		if n == most {
			t.Fatalf("attempt %d, and none before it either: %v", n, err)
		}
		t.Logf("attempt %d of %d: %v", n, most, err)
	}
}
