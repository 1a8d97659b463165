package sharednotes

import (
	"testing"
	"time"
)

func TestNodesAreLiveUntilTheyAreSilent(t *testing.T) {
	var m Members
	start := time.UnixMilli(1_700_000_000_000)
	expect := func(at time.Duration, node string, live, known int, listed bool) {
		t.Helper()
		gotLive, gotKnown, gotListed := m.Beat(node, 4*time.Second, time.Minute, start.Add(at))
		if gotLive != live || gotKnown != known || gotListed != listed {
			t.Errorf("at %v: %d live, %d known, listed %v; want %d, %d and %v", at, gotLive, gotKnown, gotListed, live, known, listed)
		}
	}
	expect(0, "a", 1, 1, false)
	expect(time.Second, "b", 2, 2, false)
	expect(4*time.Second, "b", 2, 2, true)
	expect(4*time.Second+time.Millisecond, "b", 1, 2, true)
	expect(5*time.Second, "a", 2, 2, true)
	expect(time.Minute+5*time.Second+time.Millisecond, "b", 1, 1, false) // both were forgotten
	expect(30*time.Second, "a", 2, 2, false)                             // the clock was set back
	expect(34*time.Second, "a", 2, 2, true)
	expect(35*time.Second, "a", 1, 2, true)
}
