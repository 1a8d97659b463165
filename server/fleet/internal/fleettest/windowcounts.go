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
func (p WindowCounts) Add(date time.Time, n int) { p[date.Unix()/10] += n }

// Check checks all windows but the first and the last, which are not complete.
func (p WindowCounts) Check(t *testing.T, least, most int) {
	t.Helper()
	var windows []int64
	for w := range p {
		windows = append(windows, w)
	}
	slices.Sort(windows)
	if len(windows) < 5 {
		t.Fatalf("%d windows, want at least 5: %v", len(windows), p)
	}
	for _, w := range windows[1 : len(windows)-1] {
		if p[w] < least || p[w] > most {
			t.Errorf("window %d: %d passed, want %d to %d", w, p[w], least, most)
		}
	}
}

// Most returns the most units of any window.
func (p WindowCounts) Most() (most int) {
	for _, n := range p {
		most = max(most, n)
	}
	return most
}
