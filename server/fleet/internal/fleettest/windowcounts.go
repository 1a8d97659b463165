package fleettest

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// TenIn10s is a fixed window of 10 s.
var TenIn10s = headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: 10 * time.Second}

// WrongClocks has the differences of three hosts' clocks from the right time.
var WrongClocks = []time.Duration{0, 7 * time.Second, -7 * time.Second}

// WindowCounts counts admitted units in each window of 10 s of the right clock. The index is the number of the window
// since 1970.
type WindowCounts map[int64]int

// Add counts n units that were admitted at a time.
func (c WindowCounts) Add(at time.Time, n int) { c[at.Unix()/10] += n }

// Check fails the test if a window has fewer than least or more than most units. It ignores the first and the last
// window, which are not complete.
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
			t.Errorf("window %d: %d units admitted, want %d to %d", w, c[w], least, most)
		}
	}
}

// Most returns the highest number of units in any window.
func (c WindowCounts) Most() (most int) {
	for _, n := range c {
		most = max(most, n)
	}
	return most
}
