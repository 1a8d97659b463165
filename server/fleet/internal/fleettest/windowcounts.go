package fleettest

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// TenIn10s is a fixed window of 10 s.
var TenIn10s = headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: 10 * time.Second}

// WrongClocks is how far the clocks of three hosts are ahead.
var WrongClocks = []time.Duration{0, 7 * time.Second, -7 * time.Second}

// WindowCounts counts admitted units per window of 10 s, by the right clock.
type WindowCounts map[int64]int

// Add counts n units at a time.
func (c WindowCounts) Add(at time.Time, n int) { c[at.Unix()/10] += n }

// Check checks all windows but the first and the last, which are not complete.
func (c WindowCounts) Check(t *testing.T, least, most int) {
	t.Helper()
	var windows []int64
	for w := range c {
		windows = append(windows, w)
	}
	slices.Sort(windows)
	if len(windows) < 5 {
		t.Fatalf("%d windows, want at least 5: %v", len(windows), c)
	}
	for _, w := range windows[1 : len(windows)-1] {
		if c[w] < least || c[w] > most {
			t.Errorf("window %d: %d passed, want %d to %d", w, c[w], least, most)
		}
	}
}

// Most returns the most units of any window.
func (c WindowCounts) Most() (most int) {
	for _, n := range c {
		most = max(most, n)
	}
	return most
}
