package region

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestRegionsOnRedis(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	open := func(server *redistest.Server, prefix string) *redisstore.Store {
		t.Helper()
		s, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Secret: fleettest.Secret, Prefix: prefix, DialTimeout: 20 * time.Second, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	globe := redistest.Standalone(t, redistest.Options{})
	var homes []*redistest.Server
	var stores []*redisstore.Store
	var nodes [][]*Limiter
	for r := range 2 {
		home := redistest.Standalone(t, redistest.Options{})
		store := open(home, "hg")
		book, err := fleetredis.NewRegionStore(store, "")
		if err != nil {
			t.Fatal(err)
		}
		var list []*Limiter
		for n := range 2 {
			// Units that time out on the way are lost, and a region that comes later estimates by times what others know.
			// Neither may happen here, however busy the machine is: then all counts are exact.
			o := Options{
				Region: fmt.Sprint("region ", r), Node: fmt.Sprintf("node %d/%d", r, n),
				Interval: 100 * time.Millisecond, Deadline: 30 * time.Second, OnEvent: func(fleet.Event) {},
			}
			board, err := fleetredis.NewExchange(open(globe, "globe"), fleetredis.ExchangeOptions{Author: o.Author(), Secret: fleettest.Secret})
			if err != nil {
				t.Fatal(err)
			}
			g, err := New(fleet.LedgerOptions{Secret: fleettest.Secret, Lag: time.Minute}, store, book, board, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				_ = g.Close(ctx)
			})
			list = append(list, g)
		}
		homes, stores, nodes = append(homes, home), append(stores, store), append(nodes, list)
	}
	agreed := func(when, key string, limit headgate.Limit, want int64) {
		t.Helper()
		for r := range stores {
			await.True(t, fmt.Sprintf("%s: region %d to have %d of %s left", when, r, want, key), func() bool {
				for _, g := range nodes[r] { // they go on asking for more than there is
					if d, err := g.Take(t.Context(), headgate.Check{Key: key, Limit: limit, Cost: limit.Capacity()}); err != nil || d.Allowed {
						t.Fatalf("got %+v, %v, want denied", d, err)
					}
				}
				d, err := stores[r].Peek(t.Context(), headgate.Check{Key: key, Limit: limit})
				if err != nil || d.Remaining < want {
					t.Fatalf("%s: remaining in region %d: got %d, %v, want %d", when, r, d.Remaining, err, want)
				}
				return d.Remaining == want
			})
		}
	}
	for key, limit := range map[string]headgate.Limit{
		"bucket": headgate.Per(100, 300*24*time.Hour), "window": headgate.MustParseLimit("100/300d fixed-window"),
	} {
		for _, list := range nodes {
			for _, g := range list {
				takeRegion(t, g, key, limit, 10)
			}
		}
		agreed("at first", key, limit, 60)
		for r, list := range nodes { // as if all was taken before anybody knew
			if _, err := list[r].Charge(t.Context(), headgate.Check{Key: key, Limit: limit, Cost: 60}); err != nil {
				t.Fatal(err)
			}
		}
		agreed("when all was taken twice", key, limit, -60)
	}
	// The exchange loses all, and nobody is charged twice.
	if _, err := globe.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	limit := headgate.Per(100, 300*24*time.Hour)
	for _, list := range nodes {
		if _, err := list[0].Charge(t.Context(), headgate.Check{Key: "bucket", Limit: limit, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	agreed("after the exchange lost all", "bucket", limit, -62)
	// A region that loses all begins again, and tells nobody of what was told.
	if _, err := homes[0].Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0][0].Charge(t.Context(), headgate.Check{Key: "bucket", Limit: limit, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the other to hear of one more", func() bool {
		// The sending node sends when the key is requested.
		if d, err := nodes[0][0].Take(t.Context(), headgate.Check{Key: "bucket", Limit: limit, Cost: limit.Capacity()}); err != nil || d.Allowed {
			t.Fatalf("got %+v, %v, want denied", d, err)
		}
		takeRegion(t, nodes[1][0], "bucket", limit, 1)
		d, err := stores[1].Peek(t.Context(), headgate.Check{Key: "bucket", Limit: limit})
		if err != nil || d.Remaining < -63 {
			t.Fatalf("remaining: got %d, %v, want -63", d.Remaining, err)
		}
		return d.Remaining == -63
	})
}
