package region

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/regiontotals"
)

func newTotals() *regiontotals.Store { return regiontotals.New(time.Now) }

// A land is a region of a test: nodes that share a store.
type land struct {
	store  *memstore.Store
	totals *regiontotals.Store
	nodes  []*Limiter
}

// startNode starts a node of a region.
func startNode(t testing.TB, s *fleettest.Board, store headgate.Limiter, rs fleet.RegionStore, o Options) *Limiter {
	t.Helper()
	g, err := New(fleet.LedgerOptions{
		Secret:    fleettest.Secret,
		OnRefused: func(from fleet.Peer, why string) { t.Errorf("refused a tally of %v: %s", from, why) },
	}, store, rs, s.Node(o.Author()), o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func startLands(t testing.TB, s *fleettest.Board, lands, nodes int, change func(*Options)) []*land {
	t.Helper()
	var all []*land
	for r := range lands {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		totals := newTotals()
		l := &land{store: store, totals: totals}
		for n := range nodes {
			o := Options{
				Region: fmt.Sprint("region ", r), Node: fmt.Sprintf("node %d/%d", r, n), Rand: rand.New(rand.NewPCG(uint64(r), uint64(n))).Int64N,
				OnEvent: func(e fleet.Event) { t.Errorf("an event: %v %v", e.Kind, e.Err) },
			}
			if change != nil {
				change(&o)
			}
			l.nodes = append(l.nodes, startNode(t, s, store, totals, o))
		}
		all = append(all, l)
	}
	return all
}

func closeLands(t testing.TB, all []*land) {
	t.Helper()
	for _, l := range all {
		for _, g := range l.nodes {
			if err := g.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := l.store.Close(); err != nil {
			t.Error(err)
		}
	}
}

func takeRegion(t testing.TB, g headgate.Limiter, key string, l headgate.Limit, n int) (passed int) {
	t.Helper()
	for range n {
		d, err := g.Take(context.Background(), headgate.Check{Key: key, Limit: l, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

func leftInLands(t testing.TB, when, key string, l headgate.Limit, want int64, all []*land) {
	t.Helper()
	for i, land := range all {
		d, err := land.store.Peek(context.Background(), headgate.Check{Key: key, Limit: l})
		if err != nil || d.Remaining != want {
			t.Errorf("%s: remaining in region %d: got %d, %v, want %d", when, i, d.Remaining, err, want)
		}
	}
}
