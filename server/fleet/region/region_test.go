package region

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestRegionsChargeWhatOthersConsumedOncePerRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, fleettest.NewBoard(50*time.Millisecond), 3, 4, nil)
		defer closeLands(t, all)
		for name, limit := range map[string]headgate.Limit{
			"bucket": headgate.Per(400, 300*24*time.Hour), "gcra": headgate.MustParseLimit("400/300d gcra"),
			"fixed": headgate.MustParseLimit("400/300d fixed-window"), "sliding": headgate.MustParseLimit("400/300d sliding-window"),
		} {
			for _, l := range all {
				for _, g := range l.nodes {
					takeRegion(t, g, name, limit, 10)
				}
			}
			time.Sleep(3 * time.Second)
			leftInLands(t, name+": after 120 in all", name, limit, 280, all)
			for _, l := range all { // one node of each goes on, the others speak no more
				takeRegion(t, l.nodes[3], name, limit, 50)
			}
			time.Sleep(3 * time.Second)
			leftInLands(t, name+": after 270 in all", name, limit, 130, all)
			for _, l := range all {
				if got := takeRegion(t, l.nodes[1], name, limit, 130); got != 130 {
					t.Errorf("%s: passed %d, want 130", name, got)
				}
			}
			time.Sleep(3 * time.Second)
			leftInLands(t, name+": after all took what was left", name, limit, -260, all)
		}
	})
}

func TestRegionsStayWithinTheirBoundAndRepay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lands, nodes, rate, length, delay = 3, 2, 1000, 60 * time.Second, 40 * time.Millisecond
		all := startLands(t, fleettest.NewBoard(delay), lands, nodes, nil)
		defer closeLands(t, all)
		limit := headgate.PerSecond(rate)
		j := &fleettest.Meter{Burst: rate, Rate: rate, Within: DefaultInterval + 2*delay}
		rng := rand.New(rand.NewPCG(3, 4))
		start := time.Now()
		for at := time.Duration(0); at < length; at += time.Millisecond {
			time.Sleep(time.Until(start.Add(at)))
			j.Advance(at)
			n := fleettest.Poisson(rng, 3*rate/1000)
			j.Arrivals = append(j.Arrivals, n)
			for range n {
				j.Pass(takeRegion(t, all[rng.IntN(lands)].nodes[rng.IntN(nodes)], "k", limit, 1))
			}
		}
		most := float64(rate + rate*length.Seconds())
		stats := all[0].nodes[0].Stats()
		t.Logf("passed %d of %.0f (%+.3f %%), at most %.0f over, bound %.0f; lag %v, over at most %d", j.Passed, most, 100*(float64(j.Passed)/most-1), j.Over, j.Bound(lands), stats.Lag, stats.OverMax)
		if j.Over > j.Bound(lands) {
			t.Errorf("over at a time: got %.0f, want at most %.0f", j.Over, j.Bound(lands))
		}
		if float64(j.Passed) > most+j.Bound(lands) || float64(j.Passed) < 0.95*most {
			t.Errorf("passed in all: got %d, want about %.0f", j.Passed, most)
		}
	})
}

func TestRegionsWithinTheLimitTogetherAreNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, fleettest.NewBoard(50*time.Millisecond), 2, 2, func(o *Options) { o.Interval = 20 * time.Second })
		defer closeLands(t, all)
		limit := headgate.Limit{Count: 100, Period: time.Second, Burst: 20}
		asked, passed := 0, 0
		for range 300 * 50 {
			for _, l := range all {
				for _, g := range l.nodes {
					if rand.IntN(100) < 45 { // 22.5/s a node, 90/s together
						asked++
						passed += takeRegion(t, g, "k", limit, 1)
					}
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("passed %d of %d", passed, asked)
		if passed < asked*95/100 {
			t.Errorf("passed %d of %d that were within the limit, want 95 %%", passed, asked)
		}
	})
}

func TestRegionsGoOnWhileTheOthersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(10 * time.Millisecond)
		var events []fleet.EventKind
		all := startLands(t, s, 2, 1, func(o *Options) {
			first := o.Region == "region 0"
			o.OnEvent = func(e fleet.Event) {
				if first {
					events = append(events, e.Kind)
				}
			}
		})
		defer closeLands(t, all)
		limit := headgate.Per(1000, 300*24*time.Hour)
		s.SetDown(true)
		for range 10 {
			takeRegion(t, all[0].nodes[0], "k", limit, 10)
			takeRegion(t, all[1].nodes[0], "k", limit, 5)
			time.Sleep(time.Second)
		}
		if !all[0].nodes[0].Stats().Unreachable {
			t.Error("stats: want away")
		}
		s.SetDown(false)
		time.Sleep(5 * time.Second)
		takeRegion(t, all[0].nodes[0], "k", limit, 1)
		takeRegion(t, all[1].nodes[0], "k", limit, 1)
		time.Sleep(5 * time.Second)
		leftInLands(t, "when they are back", "k", limit, 1000-152, all)
		if len(events) != 2 || events[0] != fleet.ExchangeUnreachable || events[1] != fleet.ExchangeReachable {
			t.Errorf("events: got %v, want away and back", events)
		}
	})
}

func TestNewRegionRepaysWhatItAdmittedBeforeItsFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, fleettest.NewBoard(20*time.Millisecond), 2, 2, nil)
		defer closeLands(t, all)
		limit := headgate.PerMinute(60)
		start := time.Now()
		passed := takeRegion(t, all[0].nodes[0], "k", limit, 60)
		time.Sleep(5 * time.Second)
		for _, g := range all[1].nodes {
			if d, err := g.Take(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 30}); err != nil || !d.Allowed {
				t.Fatalf("the first decision of a node: got %+v, %v, want allowed", d, err)
			}
			passed += 30
		}
		for time.Since(start) < 2*time.Minute { // only the newcomer is asked
			passed += takeRegion(t, all[1].nodes[0], "k", limit, 1)
			time.Sleep(250 * time.Millisecond)
		}
		if most := 60 + 2*60; passed > most+2 || passed < most-6 {
			t.Errorf("passed in 2 minutes: got %d, want %d", passed, most)
		}
	})
}

func TestRegionThatIsNewBeginsAtTheLevelOfTwoOldOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, fleettest.NewBoard(20*time.Millisecond), 3, 1, nil)
		defer closeLands(t, all)
		limit := headgate.Per(1000, 300*24*time.Hour)
		for range 10 {
			takeRegion(t, all[0].nodes[0], "k", limit, 10)
			takeRegion(t, all[1].nodes[0], "k", limit, 20)
			time.Sleep(time.Second)
		}
		for _, l := range []*land{all[0], all[1], all[1]} { // the last tells when it has heard of all that both consumed
			time.Sleep(3 * time.Second)
			takeRegion(t, l.nodes[0], "k", limit, 1)
		}
		time.Sleep(3 * time.Second)
		takeRegion(t, all[2].nodes[0], "k", limit, 47)
		time.Sleep(3 * time.Second)
		leftInLands(t, "when the third has come", "k", limit, 1000-350, all[2:])
		for _, l := range all { // so that all ask
			takeRegion(t, l.nodes[0], "k", limit, 1)
		}
		time.Sleep(3 * time.Second)
		leftInLands(t, "when all have heard of each other", "k", limit, 1000-353, all)
	})
}

func TestRegionNodeThatStartsAgainIsHeardAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(20 * time.Millisecond)
		all := startLands(t, s, 2, 1, nil)
		defer closeLands(t, all)
		limit := headgate.Per(1000, 300*24*time.Hour)
		time.Sleep(time.Minute)
		for _, l := range all {
			takeRegion(t, l.nodes[0], "k", limit, 10)
		}
		time.Sleep(3 * time.Second)
		leftInLands(t, "before", "k", limit, 1000-20, all)
		if err := all[0].nodes[0].Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		all[0].nodes[0] = startNode(t, s, all[0].store, all[0].totals, Options{
			Region: "region 0", Node: "node 0/0", Rand: rand.New(rand.NewPCG(0, 9)).Int64N,
			OnEvent: func(e fleet.Event) { t.Errorf("an event: %v %v", e.Kind, e.Err) },
		})
		time.Sleep(time.Second)
		takeRegion(t, all[0].nodes[0], "k", limit, 7)
		time.Sleep(3 * time.Second)
		takeRegion(t, all[1].nodes[0], "k", limit, 1)
		time.Sleep(3 * time.Second)
		leftInLands(t, "after the restart", "k", limit, 1000-28, all[1:])
	})
}

func TestRegionsRefuseBadOptions(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Node: "a"}, "Region"},
		{Options{Region: "a"}, "Node"},
		{Options{Region: strings.Repeat("x", 65), Node: "a"}, "Region"},
		{Options{Region: "a", Node: "a", Interval: time.Hour}, "Interval"},
	} {
		if _, err := New(fleet.LedgerOptions{}, store, newTotals(), fleettest.NewBoard(0).Node("a"), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error about %s", tt.o, err, tt.want)
		}
	}
	if _, err := New(fleet.LedgerOptions{}, nil, newTotals(), fleettest.NewBoard(0).Node("a"), Options{Region: "a", Node: "a"}); !errors.Is(err, errMissing) {
		t.Errorf("no store: got %v, want %v", err, errMissing)
	}
}
