package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func TestKeysThatAreNotSharedAreCountedByEachHost(t *testing.T) {
	_, all := hosts(t, 2, true, nil)
	limit := headgate.Limit{Algorithm: headgate.SlidingLog, Count: 10, Period: time.Minute}
	all[0].take("k", limit, 3)
	if told := all[0].Changes(nil, 10); len(told) != 0 {
		t.Errorf("told %v of a limit that is not shared", told)
	}
	wantRemaining(t, "here", "k", limit, 7, all[0])
	wantRemaining(t, "there", "k", limit, 10, all[1])
}

func TestTheHottestAreToldFirstAndTheOthersInTheirTurn(t *testing.T) {
	_, all := hosts(t, 1, false, nil)
	h := all[0]
	limit := headgate.PerHour(1000)
	for i := range 200 {
		h.take(fmt.Sprint("cold ", i), limit, 1)
	}
	hot := map[tally.Key]bool{}
	for i := range 8 {
		h.take(fmt.Sprint("hot ", i), limit, 500)
		key, err := h.KeyOf(headgate.Check{Key: fmt.Sprint("hot ", i), Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		hot[key] = true
	}
	first := h.Changes(nil, 16)
	if len(first) != 16 {
		t.Fatalf("told %d, want 16", len(first))
	}
	for i, tally := range first[:8] {
		if !hot[tally.Key] || tally.Total != 500 {
			t.Errorf("tally %d: got total %d, want one of the hot", i, tally.Total)
		}
	}
	// The hot stay hot, and take all places but an eighth; still all get their turn.
	told := map[tally.Key]bool{}
	for range 200 {
		for i := range 8 {
			h.take(fmt.Sprint("hot ", i), limit, 2)
		}
		for _, tally := range h.Changes(nil, 8) {
			told[tally.Key] = true
		}
	}
	if len(told) < 190 {
		t.Errorf("told of %d keys, want nearly all 208", len(told))
	}
}

func TestWhatCouldNotBeToldIsToldAgain(t *testing.T) {
	_, all := hosts(t, 1, false, nil)
	h := all[0]
	limit := headgate.PerHour(100)
	h.take("k", limit, 5)
	lost := h.Changes(nil, 10)
	if len(lost) != 1 || len(h.Changes(nil, 10)) != 0 {
		t.Fatalf("changes: got %v, want one, once", lost)
	}
	h.Resend(lost)
	again := h.Changes(nil, 10)
	if len(again) != 1 || again[0].Total != 5 {
		t.Errorf("told again: got %v, want the same", again)
	}
}
