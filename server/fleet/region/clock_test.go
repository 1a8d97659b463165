package region

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestRegionTellsThatItsStoresDateIsNotTheFleets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []fleet.EventKind
		s := fleettest.NewBoard(time.Millisecond)
		s.Ahead = 5 * time.Second
		lands := startLands(t, s, 1, 1, func(o *Options) {
			o.OnEvent = func(e fleet.Event) { kinds = append(kinds, e.Kind) }
		})
		if err := lands[0].nodes[0].SyncClock(context.Background()); err != nil {
			t.Fatal(err)
		}
		takeRegion(t, lands[0].nodes[0], "k", fleettest.TenIn10s, 1)
		time.Sleep(2 * DefaultInterval)
		if got := lands[0].nodes[0].Stats().ClockAhead; (got - s.Ahead).Abs() > time.Millisecond {
			t.Errorf("the date is ahead by %v, want %v", got, s.Ahead)
		}
		closeLands(t, lands)
		if want := []fleet.EventKind{fleet.ClockOutOfSync, fleet.StoreClockOutOfSync}; !slices.Equal(kinds, want) {
			t.Errorf("events: got %v, want %v", kinds, want)
		}
		if got := lands[0].nodes[0].Stats().StoreClockOffset; (got + s.Ahead).Abs() > 10*time.Millisecond {
			t.Errorf("the store is off by %v, want %v", got, -s.Ahead)
		}
	})
}
