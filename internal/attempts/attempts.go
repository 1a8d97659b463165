// Package attempts retries tests of speed, which a busy machine can spoil but never help.
package attempts

import "testing"

// OneOf runs try up to so many times until it returns no error, and fails the test if none succeeds. Conditions that
// must hold on a busy machine too belong outside of try, or in an error of the test itself, which ends the attempts.
func OneOf(t testing.TB, most int, try func() error) {
	t.Helper()
	for n := 1; ; n++ {
		err := try()
		if err == nil || t.Failed() {
			return
		}
		if n == most {
			t.Fatalf("attempt %d failed like all before it: %v", n, err)
		}
		t.Logf("attempt %d of %d: %v", n, most, err)
	}
}
