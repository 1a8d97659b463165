// Package await lets tests wait for a condition: it is checked repeatedly, and the test fails after far longer than it
// could take on a busy machine.
package await

import (
	"testing"
	"time"
)

// Patience is how long a test waits for a condition.
const Patience = 2 * time.Minute

const pollInterval = time.Millisecond // pause between checks

// True waits until a condition holds. what describes it for the failure message.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !poll(Patience, is) {
		t.Fatalf("still not true after %v: %s", Patience, what)
	}
}

// NoError retries until there is no error, and returns how long that took.
func NoError(t testing.TB, what string, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	var err error
	if !poll(Patience, func() bool { err = try(); return err == nil }) {
		t.Fatalf("%s, still after %v: %v", what, Patience, err)
	}
	return time.Since(start)
}

// Equal waits until got returns want.
func Equal[T comparable](t testing.TB, what string, got func() T, want T) {
	t.Helper()
	var last T
	if !poll(Patience, func() bool { last = got(); return last == want }) {
		t.Fatalf("%s, still after %v: got %v, want %v", what, Patience, last, want)
	}
}

func poll(patience time.Duration, is func() bool) bool {
	for end := time.Now().Add(patience); !is(); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
