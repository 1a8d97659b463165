package ledger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/changetest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/server/fleet"
)

// Rate, period, burst, algorithm and alignment of limits change at random times. HEADGATE_SOAK=1 makes it a million
// steps.
func TestChangedLimitsOfALedgerAgreeWithOracle(t *testing.T) {
	steps := 20_000
	if os.Getenv("HEADGATE_SOAK") == "1" {
		steps = 1_000_000
	}
	var (
		clock *limittest.Clock
		l     *Ledger
	)
	seen, err := changetest.Run(t.Context(), steps, func(run uint64) *changetest.History {
		if run%16 == 0 { // before the clock has come to where times end
			var err error
			clock = limittest.NewClock()
			if l, err = New(fleet.LedgerOptions{Clock: suiteClock{now: clock.Now}}, fleet.Peer{}, false); err != nil {
				t.Fatal(err)
			}
		}
		return changetest.New(l, clock, fmt.Sprint("key-", run), rand.New(rand.NewPCG(20260101, run)), changetest.Options{})
	})
	if err == nil {
		err = seen.CheckVariety()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", seen)
}

// kindChanges are pairs of limits that share no state. Nothing drains or ends meanwhile.
func kindChanges(t *testing.T, test func(t *testing.T, from, to headgate.Limit, asks bool)) {
	t.Helper()
	for _, tt := range [][2]string{
		{"90/d", "90/d fixed-window"},
		{"90/d fixed-window", "90/d"},
		{"90/d sliding-window", "90/d"},
		{"90/d", "90/d sliding-window"},
		{"90/d fixed-window", "90/d sliding-window"},
		{"90/d sliding-window", "90/d fixed-window"},
		{"90/d fixed-window", "90/d fixed-window staggered"},
		{"90/d fixed-window staggered", "90/d fixed-window"},
		{"90/d fixed-window", "90/h fixed-window"},
	} {
		t.Run(tt[0]+" becomes "+tt[1], func(t *testing.T) {
			modes(t, func(t *testing.T, asks bool) {
				test(t, headgate.MustParseLimit(tt[0]), headgate.MustParseLimit(tt[1]), asks)
			})
		})
	}
}

// Each node counts what all of them consumed before the change, once.
func TestNodesKeepWhatAllConsumedUnderAnotherAlgorithm(t *testing.T) {
	kindChanges(t, func(t *testing.T, from, to headgate.Limit, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		clock.Advance(10 * time.Hour)
		share := func() {
			for range 3 {
				clock.Advance(time.Millisecond)
				shareAll(all...)
			}
		}
		for _, h := range all {
			h.take("k", from, 10)
		}
		share()
		wantRemaining(t, "before", "k", from, 60, all...)
		wantRemaining(t, "looked at before it changes", "k", to, 60, all...)
		for _, h := range all {
			if got := h.take("k", to, 5); got != 5 {
				t.Fatalf("passed after the change: got %d, want 5", got)
			}
			wantRemaining(t, "at once", "k", to, 55, h)
		}
		share()
		wantRemaining(t, "when all know", "k", to, 45, all...)
		share()
		wantRemaining(t, "later", "k", to, 45, all...)
		for i, h := range all { // and back again
			if got := h.take("k", from, 5); got != 5 {
				t.Fatalf("passed after the change back on %d: got %d, want 5", i, got)
			}
		}
		share()
		wantRemaining(t, "changed back", "k", from, 30, all...)
	})
}

// A node that comes after the change, and has never heard of the old limit, learns what was consumed under it.
func TestANodeThatJoinsAfterAChangeLearnsWhatWasConsumed(t *testing.T) {
	kindChanges(t, func(t *testing.T, from, to headgate.Limit, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		clock.Advance(10 * time.Hour)
		for _, h := range all {
			h.take("k", from, 20)
		}
		shareAll(all...)
		for _, h := range all {
			h.take("k", to, 5)
		}
		clock.Advance(time.Second)
		shareAll(all...)
		wantRemaining(t, "those that were there", "k", to, 40, all...)
		late := newHost(t, clock, fleet.Peer{Name: "late", Incarnation: 1}, asks, nil)
		clock.Advance(2 * time.Second)
		late.take("k", to, 1)
		for _, h := range all {
			h.take("k", to, 1) // so that there is something to tell
		}
		for range 3 {
			clock.Advance(time.Millisecond)
			shareAll(append(all, late)...)
		}
		wantRemaining(t, "after its first decision", "k", to, 37, all...)
		if got := late.remaining("k", to); got < 37 || got > 39 { // it may be off by what others consumed when it came
			t.Errorf("after its first decision: remaining on the node that joined: got %d, want 37 to 39", got)
		}
	})
}

// Nodes hear of a new limit one after the other. What they consume by either counts on all of them.
func TestNodesOfDifferentAlgorithmsHearOfEachOther(t *testing.T) {
	kindChanges(t, func(t *testing.T, from, to headgate.Limit, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		clock.Advance(10 * time.Hour)
		for _, h := range all {
			h.take("k", from, 10)
			if asks {
				h.take("k", to, 1) // a node hears only of what it asks for
				h.take("k", from, 1)
			}
		}
		used := int64(30)
		if asks {
			used += 6
		}
		shareAll(all...)
		wantRemaining(t, "before", "k", from, 90-used, all...)
		for i, h := range all {
			if got := h.take("k", to, 4); got != 4 {
				t.Fatalf("passed under the new limit: got %d, want 4", got)
			}
			used += 4
			for _, o := range all[i+1:] {
				o.take("k", from, 1)
				used++
			}
			clock.Advance(time.Millisecond)
			shareAll(all...)
			wantRemaining(t, "those with the new limit", "k", to, 90-used, all[:i+1]...)
			wantRemaining(t, "those with the old limit", "k", from, 90-used, all[i+1:]...)
		}
	})
}
