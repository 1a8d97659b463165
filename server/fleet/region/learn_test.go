package region

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A region that had not seen a key passed the whole limit again, however long ago others had used it up.
func TestConsumptionInOtherRegionsCountsFromTheSecondDecision(t *testing.T) {
	for _, text := range fleettest.SharedLimits {
		for _, delay := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
			t.Run(fmt.Sprint(text, " ", delay), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fleettest.WaitForNextHour()
					all := startLands(t, fleettest.NewBoard(delay), 3, 1, nil)
					defer closeLands(t, all)
					limit := headgate.MustParseLimit(text)
					passed := 0
					for _, land := range all {
						passed += takeRegion(t, land.nodes[0], "k", limit, 25)
						time.Sleep(2 * time.Second)
					}
					if passed > 22 || passed < 20 {
						t.Errorf("passed in three regions: got %d, want 20 to 22", passed)
					}
				})
			})
		}
	}
}

// The requests of a client come to all nodes of a region in turn. One of them asks the other regions, the others wait
// for it.
func TestNodesOfARegionLearnTogether(t *testing.T) {
	for _, text := range []string{"20/h", "20/h fixed-window"} {
		for _, delay := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond} {
			t.Run(fmt.Sprint(text, " ", delay), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fleettest.WaitForNextHour()
					const nodes = 3
					all := startLands(t, fleettest.NewBoard(delay), 2, nodes, nil)
					defer closeLands(t, all)
					limit := headgate.MustParseLimit(text)
					passed := takeRegion(t, all[0].nodes[0], "k", limit, 25)
					time.Sleep(4 * time.Second)
					for i := range 25 * nodes {
						passed += takeRegion(t, all[1].nodes[i%nodes], "k", limit, 1)
					}
					if most := 20 + nodes; passed > most || passed < 20 {
						t.Errorf("passed in two regions: got %d, want 20 to %d", passed, most)
					}
				})
			})
		}
	}
}

func TestRegionPeeksLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleettest.WaitForNextHour()
		all := startLands(t, fleettest.NewBoard(20*time.Millisecond), 2, 1, nil)
		defer closeLands(t, all)
		limit := headgate.MustParseLimit("20/h fixed-window")
		takeRegion(t, all[0].nodes[0], "k", limit, 20)
		time.Sleep(2 * time.Second)
		if d, err := all[1].nodes[0].Peek(t.Context(), headgate.Check{Key: "k", Limit: limit}); err != nil || d.Remaining != 0 {
			t.Errorf("the first peek: got %+v, %v, want none left", d, err)
		}
		if got := takeRegion(t, all[1].nodes[0], "k", limit, 5); got != 0 {
			t.Errorf("passed after a peek: got %d, want none", got)
		}
	})
}

func TestRegionsDoNotWaitForAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		all := startLands(t, s, 2, 2, func(o *Options) { o.OnEvent = func(fleet.Event) {} })
		defer closeLands(t, all)
		s.SetDown(true)
		limit := headgate.PerHour(1000)
		for i := range 1000 {
			for _, g := range all[0].nodes {
				if got := takeRegion(t, g, fmt.Sprint(i), limit, 3); got != 3 {
					t.Fatalf("passed: got %d, want 3", got)
				}
			}
		}
		for i, g := range all[0].nodes { // for each group of keys it is found out once
			if stats := g.Stats(); stats.LookupWaits > 2*fleet.KeyGroups || stats.LookupsDropped < 1000 {
				t.Errorf("node %d: %d decisions waited, %d did not; want at most %d to wait", i, stats.LookupWaits, stats.LookupsDropped, 2*fleet.KeyGroups)
			}
		}
		s.SetDown(false)
		time.Sleep(time.Second)
	})
}

// redisRegions starts regions of one node each, on Redis servers of their own.
func redisRegions(t *testing.T, regions int) (nodes []*Limiter) {
	t.Helper()
	open := func(server *redistest.Server, prefix string) *redisstore.Store {
		t.Helper()
		s, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{
			Secret: fleettest.Secret, Prefix: prefix, DialTimeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	globe := redistest.Standalone(t, redistest.Options{})
	for r := range regions {
		store := open(redistest.Standalone(t, redistest.Options{}), "hg")
		book, err := fleetredis.NewRegionStore(store, "")
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Region: fmt.Sprint("region ", r), Node: fmt.Sprint("node ", r), OnEvent: func(fleet.Event) {}}
		board, err := fleetredis.NewExchange(open(globe, "globe"), fleetredis.ExchangeOptions{Author: o.Author(), Secret: fleettest.Secret})
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(fleet.LedgerOptions{Secret: fleettest.Secret}, store, book, board, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(t.Context()) })
		nodes = append(nodes, g)
	}
	return nodes
}

func TestOtherRegionsCountFromTheSecondDecisionOnRedis(t *testing.T) {
	t.Parallel()
	nodes := redisRegions(t, 3)
	for _, text := range []string{"20/30d", "20/30d fixed-window", "20/30d sliding-window"} {
		limit := headgate.MustParseLimit(text)
		passed := 0
		for _, g := range nodes {
			passed += takeRegion(t, g, text, limit, 25)
			await.True(t, "what was taken to be told", func() bool { return g.Stats().Waiting == 0 })
			await.True(t, "one more exchange", nextExchange(g))
		}
		if stats := nodes[2].Stats(); passed > 22 || passed < 20 {
			t.Errorf("%s: passed in three regions: got %d, want 20 to 22; %d waited, %d did not", text, passed, stats.LookupWaits, stats.LookupsDropped)
		}
	}
}

// nextExchange returns what is true once an exchange has been made that began after now.
func nextExchange(g *Limiter) func() bool {
	was := g.Stats().Exchanges
	return func() bool { return g.Stats().Exchanges >= was+2 }
}
