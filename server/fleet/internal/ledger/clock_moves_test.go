package ledger

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A decision may read the date just before it is set back, and count just after that.
func TestClockSetBackDuringADecisionLocksNobodyOut(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		clock, all := hosts(t, 1, false, nil)
		h := all[0]
		if known {
			h.take("k", fleettest.TenIn10s, 1)
		}
		h.SetClockAhead(365 * 24 * time.Hour)
		then := h.now()
		h.SetClockAhead(0)
		if known {
			h.take("k", fleettest.TenIn10s, 1) // goes by the new date already
		}
		check := headgate.Check{Key: "k", Limit: fleettest.TenIn10s, Cost: 10}
		q, err := h.prepare(&check)
		if err != nil {
			t.Fatal(err)
		}
		var d headgate.Decision
		sh := h.shardOf(&q.key)
		sh.mu.Lock()
		_, err = h.Ledger.take(sh, &q, then, &d)
		sh.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		h.take("k", fleettest.TenIn10s, 10)
		clock.Advance(20 * time.Second)
		if got := h.take("k", fleettest.TenIn10s, 20); got != 10 {
			t.Errorf("known %t: %d passed in a later window, want 10", known, got)
		}
	}
}

// A clock that is set back by less than a window leaves the record in the later one. Units that are carried into it are
// charged there, not in the window before.
func TestCarriedUnitsAreChargedInTheOpenWindowAfterTheClockIsSetBack(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		h := all[1]
		h.take("k", tenAMinute, 6)
		all[0].take("k", tenAMinute, 10)
		notes, uptime := all[0].Changes(nil, 10), all[0].Uptime()
		clock.Advance(50 * time.Second)
		h.SetClockAhead(20 * time.Second)
		h.Changes(nil, 10) // ends the window
		h.SetClockAhead(0)
		h.Apply(all[0].Peer, uptime, notes)
		clock.Advance(20 * time.Second)
		wantRemaining(t, "6 of 16 are carried", "k", tenAMinute, 4, h)
	})
}
