// Package await lets tests wait for a condition. It checks the condition repeatedly, and fails the test after Timeout.
package await

import (
	"runtime"
	"testing"
	"time"
)

// Timeout is the maximum time to wait for a condition. It is far longer than a busy machine needs.
const Timeout = 2 * time.Minute

const pollInterval = time.Millisecond // pause between checks

// True waits until a condition holds. what describes it for the failure message.
func True(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !poll(condition) {
		t.Fatalf("still not true after %v: %s", Timeout, what)
	}
}

// NoError calls try until it returns no error, and returns how long that took. what describes try for the failure
// message.
func NoError(t testing.TB, what string, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	var err error
	if !poll(func() bool { err = try(); return err == nil }) {
		t.Fatalf("%s, still after %v: %v", what, Timeout, err)
	}
	return time.Since(start)
}

// Equal waits until got returns want.
func Equal[T comparable](t testing.TB, what string, got func() T, want T) {
	t.Helper()
	var last T
	if !poll(func() bool { last = got(); return last == want }) {
		t.Fatalf("%s, still after %v: got %v, want %v", what, Timeout, last, want)
	}
}

// Goroutines waits until there are no more goroutines than before. Its failure message has their stacks.
func Goroutines(t testing.TB, before int) {
	t.Helper()
	if !poll(func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Fatalf("got %d goroutines, want %d as before:\n%s", runtime.NumGoroutine(), before, stacks)
	}
}

// poll reports whether the condition became true within Timeout.
func poll(condition func() bool) bool {
	for deadline := time.Now().Add(Timeout); !condition(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
