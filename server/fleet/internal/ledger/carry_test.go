package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

var tenAMinute = headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}

// What passed beyond the limit in a window was forgotten when it ended, in every window.
func TestExcessOfAWindowIsRepaidInTheNext(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		for _, h := range all {
			h.take("k", tenAMinute, 10)
		}
		shareAll(all...)
		wantRemaining(t, "in the first window", "k", tenAMinute, -20, all...)
		d, err := all[0].Take(context.Background(), headgate.Check{Key: "k", Limit: tenAMinute, Cost: 1})
		if err != nil || d.Allowed {
			t.Fatalf("got %+v, %v, want denied", d, err)
		}
		rest := time.Minute - clock.Now().Sub(testEpoch)%time.Minute
		if want := rest + 2*time.Minute; d.RetryAfter != want || d.ResetAfter != want {
			t.Errorf("retry after %v, reset after %v, want %v", d.RetryAfter, d.ResetAfter, want)
		}
		clock.Advance(rest)
		wantRemaining(t, "in the second", "k", tenAMinute, -10, all...)
		if got := all[1].take("k", tenAMinute, 5); got != 0 {
			t.Errorf("passed in the second window: got %d, want none", got)
		}
		clock.Advance(time.Minute)
		wantRemaining(t, "in the third", "k", tenAMinute, 0, all...)
		clock.Advance(time.Minute)
		wantRemaining(t, "in the fourth", "k", tenAMinute, 10, all...)
	})
}

func TestExcessIsCarriedHoweverManyWindowsNobodyAsks(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		for _, tt := range []struct{ windows, remaining int64 }{{1, -25}, {2, -15}, {3, -5}, {4, 5}, {5, 10}, {100, 10}} {
			clock, all := hosts(t, 5, asks, nil)
			for _, h := range all {
				h.take("k", tenAMinute, 9)
			}
			shareAll(all...)
			clock.Advance(time.Duration(tt.windows) * time.Minute)
			wantRemaining(t, "later", "k", tenAMinute, tt.remaining, all...)
		}
	})
}

func TestAnUpdateOfTheLastWindowRaisesWhatIsCarried(t *testing.T) {
	clock, all := hosts(t, 3, false, nil)
	clock.Advance(59900 * time.Millisecond)
	all[0].take("k", tenAMinute, 6)
	all[1].take("k", tenAMinute, 6)
	all[2].take("k", tenAMinute, 6)
	first, second := all[0].Changes(nil, 10), all[1].Changes(nil, 10)
	up := all[0].Uptime()
	clock.Advance(200 * time.Millisecond)
	h := all[2]
	wantRemaining(t, "before the update", "k", tenAMinute, 10, h)
	h.Apply(all[0].Peer, up, first)
	wantRemaining(t, "12 in all", "k", tenAMinute, 8, h)
	h.Apply(all[0].Peer, up, first)
	wantRemaining(t, "told twice", "k", tenAMinute, 8, h)
	h.Apply(all[1].Peer, up, second)
	wantRemaining(t, "18 in all", "k", tenAMinute, 2, h)
	h.take("k", tenAMinute, 2)
	clock.Advance(time.Minute)
	wantRemaining(t, "in the window after", "k", tenAMinute, 10, h)
}

// Units that are charged whatever the limit says go with their window, as in any store: no node has let too much pass.
func TestChargesBeyondAWindowAreNotCarried(t *testing.T) {
	clock, all := hosts(t, 2, false, nil)
	all[1].take("k", tenAMinute, 1)
	if _, err := all[0].Charge(context.Background(), headgate.Check{Key: "k", Limit: tenAMinute, Cost: 50}); err != nil {
		t.Fatal(err)
	}
	shareAll(all...)
	wantRemaining(t, "in the window", "k", tenAMinute, -41, all...)
	clock.Advance(time.Minute)
	wantRemaining(t, "in the next, of which the one that was taken beside the charge is used", "k", tenAMinute, 9, all...)
}

func TestAResetForgetsWhatIsCarried(t *testing.T) {
	clock, all := hosts(t, 3, false, nil)
	for _, h := range all {
		h.take("k", tenAMinute, 10)
	}
	shareAll(all...)
	clock.Advance(time.Minute)
	wantRemaining(t, "carried", "k", tenAMinute, -10, all...)
	if err := all[0].Reset(context.Background(), headgate.Check{Key: "k", Limit: tenAMinute}); err != nil {
		t.Fatal(err)
	}
	shareAll(all...)
	wantRemaining(t, "after a reset", "k", tenAMinute, 10, all...)
	clock.Advance(time.Minute)
	wantRemaining(t, "in the next window", "k", tenAMinute, 10, all...)
}

// A node that joined after all consumption read in the notes of the ended window only what was consumed in it, not what
// had been carried into it.
func TestNodeThatJoinsKnowsWhatWasCarriedIntoTheWindowBefore(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 4, asks, nil)
		for _, h := range all {
			h.take("k", tenAMinute, 9)
		}
		shareAll(all...)
		for window := range 2 { // 26 are carried into the second window, and 16 into the third
			clock.Advance(time.Minute)
			wantRemaining(t, "known to all", "k", tenAMinute, int64(10*window-16), all...)
		}
		var notes []tally.Tally
		all[0].Walk(func(t tally.Tally) bool { notes = append(notes, t); return true })
		uptime := all[0].Uptime()
		clock.Advance(time.Minute)
		newcomer := newHost(t, clock, fleet.Peer{Name: "newcomer", Incarnation: 1}, asks, nil)
		newcomer.Apply(all[0].Peer, uptime, notes)
		newcomer.Apply(all[0].Peer, uptime, notes)
		wantRemaining(t, "6 are carried into the fourth", "k", tenAMinute, 4, append(all, newcomer)...)
	})
}
