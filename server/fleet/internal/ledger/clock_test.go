package ledger

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A date that is set back has a window last longer, and none counted twice; one that is set forward begins the next.
func TestNoWindowIsCountedTwiceWhenTheDateMoves(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []headgate.Algorithm{headgate.FixedWindow, headgate.SlidingWindow} {
		limit := headgate.Limit{Algorithm: algorithm, Count: 10, Period: 10 * time.Second}
		clock, all := hosts(t, 1, false, nil)
		h := all[0]
		clock.Advance(8 * time.Second)
		h.take("k", limit, 10)
		clock.Advance(4 * time.Second) // 12 s
		passed := h.take("k", limit, 10)
		h.SetClockAhead(-7 * time.Second) // 5 s: what was counted at 8 s was not in another window
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 0 || got+passed > 10 {
			t.Errorf("%v: %d and then %d passed when the date was set back, want no more than 10 in all", algorithm, passed, got)
		}
		clock.Advance(14*time.Second + 999*time.Millisecond) // 19.999 s
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 0 {
			t.Errorf("%v: %d passed before the window ended", algorithm, got)
		}
		clock.Advance(20 * time.Second)
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 10 || got == 0 {
			t.Errorf("%v: %d passed in a window later on", algorithm, got)
		}
		h.SetClockAhead(3 * time.Second)
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 10 {
			t.Errorf("%v: %d passed when the next window had begun by the new date, want 10", algorithm, got)
		}
	}
}

// Nobody is locked out for a year by a window that began by a date that was a year ahead.
func TestAKeyOfAWindowFarAheadIsClosedForOneWindowAtMost(t *testing.T) {
	t.Parallel()
	clock, all := hosts(t, 1, false, nil)
	h := all[0]
	h.SetClockAhead(365 * 24 * time.Hour)
	h.take("k", fleettest.TenIn10s, 3)
	clock.Advance(2 * time.Second)
	h.SetClockAhead(0)
	if got := h.take("k", fleettest.TenIn10s, 10); got != 0 {
		t.Errorf("%d passed in a window of which nobody knows what was counted, want none", got)
	}
	clock.Advance(8 * time.Second)
	if got := h.take("k", fleettest.TenIn10s, 20); got != 10 {
		t.Errorf("%d passed in the next window, want 10", got)
	}
	if s := h.Changes(nil, 10); len(s) != 1 || s[0].Total != 10 {
		t.Errorf("got %+v, want what was consumed since", s)
	}
}
