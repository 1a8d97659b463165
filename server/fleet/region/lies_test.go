package region

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A region that has counted for long has a large total. That is no lie, and one that is new takes over its level.
func TestRegionThatIsOldIsBelievedByANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, fleettest.NewBoard(20*time.Millisecond), 2, 1, nil) // fails if anything is refused
		defer closeLands(t, all)
		limit := headgate.PerSecond(10)
		for range 6 * 60 * 4 { // so that its record never ends
			takeRegion(t, all[0].nodes[0], "k", limit, 5)
			time.Sleep(250 * time.Millisecond)
		}
		for range 20 {
			takeRegion(t, all[0].nodes[0], "k", limit, 5)
			takeRegion(t, all[1].nodes[0], "k", limit, 5)
			time.Sleep(250 * time.Millisecond)
		}
		for i, l := range all {
			if d, err := l.store.Peek(t.Context(), headgate.Check{Key: "k", Limit: limit}); err != nil || d.Remaining < -20 || d.Remaining > 10 {
				t.Errorf("remaining in region %d: got %d, %v, want about nothing", i, d.Remaining, err)
			}
		}
	})
}

// What a region says and cannot be true is charged as far as it can, once, and reported; what can be true counts after
// that.
func TestRegionThatLiesIsNotBelievedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		o := Options{Region: "here", Node: "n", OnEvent: func(fleet.Event) {}}
		var why string
		g, err := New(fleet.LedgerOptions{
			Secret: fleettest.Secret, OnRefused: func(from fleet.Peer, said string) { why = from.Name + ": " + said },
		}, store, newTotals(), s.Node(o.Author()), o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(t.Context()) }()
		limit := headgate.Per(100, 300*24*time.Hour)
		start := time.Duration(time.Now().UnixMicro()) * time.Microsecond
		for _, step := range []struct {
			tally tally.Tally
			left  int64 // beside what was taken here
			why   string
		}{
			{tally.Tally{Start: start, Total: 10, Level: 10}, 90, ""},
			{tally.Tally{Start: start + time.Hour, Total: 10, Level: 10}, 90, "there: a start in the future"},
			{tally.Tally{Start: start, Total: 5, Level: 5}, 90, "there: " + tally.ReasonDecreased},
			{tally.Tally{Start: start, Total: 1 << 50, Level: 1 << 50}, 90 - 1000, "there: " + tally.ReasonGrewTooMuch},
			{tally.Tally{Start: start, Total: 1 << 51, Level: 10}, 90 - 1000, "there: " + tally.ReasonGrewTooMuch},
			{tally.Tally{Start: start, Total: 1010, Level: 10}, 90 - 1000, ""},
			{tally.Tally{Start: start, Total: 1020, Level: 20}, 90 - 1010, ""},
		} {
			if _, err := g.Charge(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second) // its own note is there
			synctest.Wait()
			s.Mu.Lock()
			for _, notes := range s.Notes {
				notes[exchange.Author(fleet.Peer{Name: "there"})] = fleettest.Note{
					Text: string(exchange.AppendNote(nil, time.Duration(time.Now().UnixMicro())*time.Microsecond, &step.tally)), At: time.Now(),
				}
			}
			s.Mu.Unlock()
			why = ""
			if _, err := g.Charge(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			d, err := store.Peek(t.Context(), headgate.Check{Key: "k", Limit: limit})
			own := g.ledger.Tallies(nil, []tally.Key{hashOfRegion(t, g, "k", limit)})[0].Total
			if err != nil || d.Remaining+own+g.Stats().Owed*-1 != step.left {
				t.Errorf("%+v: got %d left and %d owed, %d taken here, %v, want %d", step.tally, d.Remaining, g.Stats().Owed, own, err, step.left)
			}
			if why != step.why {
				t.Errorf("%+v: refused %q, want %q", step.tally, why, step.why)
			}
		}
	})
}

func hashOfRegion(t testing.TB, g *Limiter, key string, l headgate.Limit) tally.Key {
	t.Helper()
	return g.ledger.ObservedKey(&headgate.Check{Key: key, Limit: l}).Key
}
