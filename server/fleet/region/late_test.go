package region

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A node consumes right after the one that speaks for its region has spoken, and neither is asked for the key again.
// Others hear of it within a few intervals all the same, though it takes an hour for the key to refill.
func TestRegionNodeThatDoesNotSpeakIsHeardWithinAFewIntervals(t *testing.T) {
	for _, millis := range []int{0, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 990} {
		pause := time.Duration(millis) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			s := fleettest.NewBoard(time.Millisecond)
			lands := startLands(t, s, 2, 2, nil)
			defer closeLands(t, lands)
			limit := headgate.PerHour(100)
			ours, theirs := lands[0], lands[1]
			takeRegion(t, theirs.nodes[0], "k", limit, 1)
			takeRegion(t, ours.nodes[0], "k", limit, 1)
			time.Sleep(DefaultInterval + pause)
			takeRegion(t, ours.nodes[1], "k", limit, 10)
			// The other region looks at it, so that it asks: it is not the one that is late.
			for range 20 {
				time.Sleep(3 * DefaultInterval / 20)
				if _, err := theirs.nodes[0].Take(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 100}); err != nil {
					t.Fatal(err)
				}
			}
			leftInLands(t, "after three intervals", "k", limit, 88, lands)
		})
	}
}
