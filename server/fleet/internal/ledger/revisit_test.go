package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// lingering counts the places that lists of lingering records take, and checks that each is of a record that is there,
// once.
func (h *host) lingering() (entries int) {
	h.Helper()
	for i := range h.shards {
		sh := &h.shards[i]
		for gap, list := range sh.revisits {
			for spot, r := range list {
				if sh.records[r.key] != r || int(r.status.gap) != gap || int(r.index.revisit) != spot {
					h.Fatalf("in place %d of gap %d: a record that is gone, or says that it is in place %d of gap %d", spot, gap, r.index.revisit, r.status.gap)
				}
				entries++
			}
			for _, r := range list[len(list):cap(list)] {
				if r != nil {
					h.Fatalf("behind the list of gap %d: a record that is held for nothing", gap)
				}
			}
		}
	}
	return entries
}

func TestKeysThatComeAndGoAreNotHeldByWhatLingers(t *testing.T) {
	const interval, most, turns, perTurn = time.Second, 1024, 300, 200
	clock, all := hosts(t, 1, true, func(o *fleet.LedgerOptions) { o.MaxKeys, o.Lag = most, 2*interval })
	h := all[0]
	limit := headgate.Per(1000, 24*time.Hour) // lingers for hours
	var told []tally.Tally
	for turn := range turns {
		for k := range perTurn {
			h.take(fmt.Sprint(turn, "-", k), limit, 1)
		}
		told = h.Changes(told[:0], 1<<16)
		clock.Advance(interval / (callsInLag / 2))
		if turn%50 == 49 {
			keys := h.Stats().Keys
			if got := h.lingering(); got > keys || got < keys/2 {
				t.Fatalf("turn %d: %d records linger of %d keys, want most of them and no more", turn, got, keys)
			}
		}
	}
}

func TestAKeyThatIsAskedForAgainAndAgainLingersOnce(t *testing.T) {
	const interval, keys = time.Second, 100
	clock, all := hosts(t, 1, true, func(o *fleet.LedgerOptions) { o.Lag = 2 * interval })
	h := all[0]
	limit := headgate.Per(1000, 24*time.Hour)
	var told []tally.Tally
	for turn := range 1000 {
		if turn%8 == 0 {
			for k := range keys {
				h.take(fmt.Sprint(k), limit, 1)
			}
		}
		told = h.Changes(told[:0], 1<<16)
		clock.Advance(interval / (callsInLag / 2))
		if got := h.lingering(); got != keys {
			t.Fatalf("turn %d: %d records linger, want each of %d once", turn, got, keys)
		}
	}
}
