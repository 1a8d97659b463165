package peers

import (
	"testing"

	"github.com/headgate/headgate/server/fleet"
)

func TestEndedIncarnationsAreKeptIfTheirUpdatesStay(t *testing.T) {
	for _, keep := range []bool{false, true} {
		table := Table{KeepEnded: keep}
		before, _ := table.Slot(fleet.Peer{Name: "a", Incarnation: 1}, 0)
		after, _ := table.Slot(fleet.Peer{Name: "a", Incarnation: 2}, 1)
		ids := table.IDs()
		if kept := ids[before].Hash != 0; kept != keep {
			t.Errorf("KeepEnded %t: the earlier incarnation has an ID: got %t, want %t", keep, kept, keep)
		}
		if ids[after].Hash == 0 {
			t.Errorf("KeepEnded %t: the latest incarnation has no ID", keep)
		}
	}
}
