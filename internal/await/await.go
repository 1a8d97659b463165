// Package await is for tests of what happens in its own time: they look again and again until it has, and fail when it has
// not after far longer than it could take on a busy machine.
package await

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen.
const Patience = 2 * time.Minute

const between = time.Millisecond // two looks

// True waits until something is so. What says it in a few words, for the failure.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !soon(Patience, is) {
		t.Fatalf("still not so after %v: %s", Patience, what)
	}
}

// NoError tries until there is no error, and returns how long that took.
func NoError(t testing.TB, what string, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	var err error
	if !soon(Patience, func() bool { err = try(); return err == nil }) {
		t.Fatalf("%s, still after %v: %v", what, Patience, err)
	}
	return time.Since(start)
}

// Equal waits until something is as it must be.
func Equal[T comparable](t testing.TB, what string, got func() T, want T) {
	t.Helper()
	var last T
	if !soon(Patience, func() bool { last = got(); return last == want }) {
		t.Fatalf("%s, still after %v: got %v, want %v", what, Patience, last, want)
	}
}

func soon(patience time.Duration, is func() bool) bool {
	for end := time.Now().Add(patience); !is(); time.Sleep(between) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
