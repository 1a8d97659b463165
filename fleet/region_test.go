package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// A homeBook is a RegionBook in memory.
type homeBook struct {
	mu   sync.Mutex
	keys map[string]*homeKey
}

type homeKey struct {
	start, window, total int64
	speaker              string
	until                int64
	nodes, regions       map[string][2]int64 // start and total
}

func newHomeBook() *homeBook { return &homeBook{keys: make(map[string]*homeKey)} }

func (b *homeBook) Report(_ context.Context, node string, keys []string, starts, windows, totals, told []int64, _ []time.Duration, hold time.Duration,
	reported func(int, bool, int64, int64, int64),
) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UnixMicro()
	for i, name := range keys {
		k := b.keys[name]
		if k == nil {
			k = &homeKey{start: now, window: windows[i], nodes: map[string][2]int64{}, regions: map[string][2]int64{}}
			b.keys[name] = k
		}
		if windows[i] < k.window {
			reported(i, false, k.start, k.total, now)
			continue
		}
		if windows[i] > k.window {
			k.window, k.start, k.total = windows[i], max(now, k.start+1), 0
		}
		base := told[i]
		if known, ok := k.nodes[node]; ok {
			switch {
			case known[0] == starts[i]:
				base = known[1]
			case known[0] > starts[i]:
				base = totals[i]
			default:
				base = 0
			}
		}
		k.total += max(0, totals[i]-base)
		k.nodes[node] = [2]int64{starts[i], max(totals[i], base)}
		speaks := k.speaker == node || k.until < now
		if speaks {
			k.speaker, k.until = node, now+hold.Microseconds()
		}
		reported(i, speaks, k.start, k.total, now)
	}
	return nil, nil
}

func (b *homeBook) Settle(_ context.Context, keys, regions []string, starts, totals []int64, _ []time.Duration, news func(int, int64, bool)) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, name := range keys {
		k := b.keys[name]
		known, ok := k.regions[regions[i]]
		units := totals[i]
		switch {
		case ok && known[0] > starts[i]:
			news(i, 0, false)
			continue
		case ok && known[0] == starts[i]:
			units = max(0, totals[i]-known[1])
		}
		k.regions[regions[i]] = [2]int64{starts[i], max(totals[i], known[1])}
		news(i, units, !ok)
	}
	return nil, nil
}

// A land is a region of a test: nodes that share a store.
type land struct {
	store *memstore.Store
	book  *homeBook
	nodes []*Region
}

// startNode starts a node of a region.
func startNode(t testing.TB, s *slate, store headgate.Limiter, book RegionBook, o RegionOptions) *Region {
	t.Helper()
	g, err := NewRegion(LedgerOptions{
		Secret:    testSecret,
		OnRefused: func(from Peer, tally Tally, why string) { t.Errorf("refused %+v of %v: %s", tally, from, why) },
	}, store, book, pencil{s, o.Author()}, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func startLands(t testing.TB, s *slate, lands, nodes int, change func(*RegionOptions)) []*land {
	t.Helper()
	var all []*land
	for r := range lands {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		book := newHomeBook()
		l := &land{store: store, book: book}
		for n := range nodes {
			o := RegionOptions{
				Region: fmt.Sprint("region ", r), Node: fmt.Sprintf("node %d/%d", r, n), Rand: rand.New(rand.NewPCG(uint64(r), uint64(n))).Int64N,
				OnEvent: func(e AsyncEvent) { t.Errorf("an event: %v %v", e.Kind, e.Err) },
			}
			if change != nil {
				change(&o)
			}
			l.nodes = append(l.nodes, startNode(t, s, store, book, o))
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
		d, err := land.store.Take(context.Background(), headgate.Check{Key: key, Limit: l})
		if err != nil || d.Remaining != want {
			t.Errorf("%s: remaining in region %d: got %d, %v, want %d", when, i, d.Remaining, err, want)
		}
	}
}

func TestRegionsChargeWhatOthersConsumedOncePerRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, newSlate(50*time.Millisecond), 3, 4, nil)
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
		all := startLands(t, newSlate(delay), lands, nodes, nil)
		defer closeLands(t, all)
		limit := headgate.PerSecond(rate)
		j := &judge{burst: rate, rate: rate, within: DefaultRegionInterval + 2*delay}
		rng := rand.New(rand.NewPCG(3, 4))
		start := time.Now()
		for at := time.Duration(0); at < length; at += time.Millisecond {
			time.Sleep(time.Until(start.Add(at)))
			j.at(at)
			n := poisson(rng, 3*rate/1000)
			j.arrivals = append(j.arrivals, n)
			for range n {
				j.pass(takeRegion(t, all[rng.IntN(lands)].nodes[rng.IntN(nodes)], "k", limit, 1))
			}
		}
		most := float64(rate + rate*length.Seconds())
		stats := all[0].nodes[0].Stats()
		t.Logf("passed %d of %.0f (%+.3f %%), at most %.0f over, bound %.0f; lag %v, over at most %d", j.passed, most, 100*(float64(j.passed)/most-1), j.over, j.bound(lands), stats.Lag, stats.OverMax)
		if j.over > j.bound(lands) {
			t.Errorf("over at a time: got %.0f, want at most %.0f", j.over, j.bound(lands))
		}
		if float64(j.passed) > most+j.bound(lands) || float64(j.passed) < 0.95*most {
			t.Errorf("passed in all: got %d, want about %.0f", j.passed, most)
		}
	})
}

func TestRegionsWithinTheLimitTogetherAreNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, newSlate(50*time.Millisecond), 2, 2, func(o *RegionOptions) { o.Interval = 20 * time.Second })
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
		s := newSlate(10 * time.Millisecond)
		var events []AsyncEventKind
		all := startLands(t, s, 2, 1, func(o *RegionOptions) {
			first := o.Region == "region 0"
			o.OnEvent = func(e AsyncEvent) {
				if first {
					events = append(events, e.Kind)
				}
			}
		})
		defer closeLands(t, all)
		limit := headgate.Per(1000, 300*24*time.Hour)
		s.setDown(true)
		for range 10 {
			takeRegion(t, all[0].nodes[0], "k", limit, 10)
			takeRegion(t, all[1].nodes[0], "k", limit, 5)
			time.Sleep(time.Second)
		}
		if !all[0].nodes[0].Stats().Away {
			t.Error("stats: want away")
		}
		s.setDown(false)
		time.Sleep(5 * time.Second)
		takeRegion(t, all[0].nodes[0], "k", limit, 1)
		takeRegion(t, all[1].nodes[0], "k", limit, 1)
		time.Sleep(5 * time.Second)
		leftInLands(t, "when they are back", "k", limit, 1000-152, all)
		if len(events) != 2 || events[0] != ExchangeAway || events[1] != ExchangeBack {
			t.Errorf("events: got %v, want away and back", events)
		}
	})
}

func TestRegionThatIsNewRepaysWhatItLetPassBeforeItHeardOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, newSlate(20*time.Millisecond), 2, 2, nil)
		defer closeLands(t, all)
		limit := headgate.PerMinute(60)
		start := time.Now()
		passed := takeRegion(t, all[0].nodes[0], "k", limit, 60)
		time.Sleep(5 * time.Second)
		for _, g := range all[1].nodes {
			passed += takeRegion(t, g, "k", limit, 30)
		}
		if passed != 120 {
			t.Fatalf("passed before anybody knew: got %d, want 120", passed)
		}
		for time.Since(start) < 5*time.Minute { // only the newcomer is asked
			passed += takeRegion(t, all[1].nodes[0], "k", limit, 1)
			time.Sleep(250 * time.Millisecond)
		}
		if most := 60 + 5*60; passed > most+2 || passed < most-6 {
			t.Errorf("passed in 5 minutes: got %d, want %d", passed, most)
		}
	})
}

func TestRegionThatIsNewBeginsAtTheLevelOfTwoOldOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, newSlate(20*time.Millisecond), 3, 1, nil)
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
		s := newSlate(20 * time.Millisecond)
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
		all[0].nodes[0] = startNode(t, s, all[0].store, all[0].book, all[0].nodes[0].options)
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
		o    RegionOptions
		want string
	}{
		{RegionOptions{Node: "a"}, "Region"},
		{RegionOptions{Region: "a"}, "Name"},
		{RegionOptions{Region: strings.Repeat("x", 65), Node: "a"}, "Region"},
		{RegionOptions{Region: "a", Node: "a", Interval: time.Hour}, "Interval"},
	} {
		if _, err := NewRegion(LedgerOptions{}, store, newHomeBook(), pencil{newSlate(0), "a"}, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error about %s", tt.o, err, tt.want)
		}
	}
	if _, err := NewRegion(LedgerOptions{}, nil, newHomeBook(), pencil{newSlate(0), "a"}, RegionOptions{Region: "a", Node: "a"}); !errors.Is(err, errNoRegion) {
		t.Errorf("no store: got %v, want %v", err, errNoRegion)
	}
}

func TestRegionsOnRedis(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	open := func(server *redistest.Server, prefix string) *redisstore.Store {
		t.Helper()
		s, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Secret: testSecret, Prefix: prefix, DialTimeout: 20 * time.Second, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	globe := redistest.Standalone(t, redistest.Options{})
	var homes []*redistest.Server
	var stores []*redisstore.Store
	var nodes [][]*Region
	for r := range 2 {
		home := redistest.Standalone(t, redistest.Options{})
		store := open(home, "hg")
		book, err := store.RegionBook("")
		if err != nil {
			t.Fatal(err)
		}
		var list []*Region
		for n := range 2 {
			o := RegionOptions{Region: fmt.Sprint("region ", r), Node: fmt.Sprintf("node %d/%d", r, n), Interval: 100 * time.Millisecond, OnEvent: func(AsyncEvent) {}}
			board, err := open(globe, "globe").Board(redisstore.BoardOptions{Author: o.Author(), Mark: Fingerprint(testSecret)})
			if err != nil {
				t.Fatal(err)
			}
			g, err := NewRegion(LedgerOptions{Secret: testSecret}, store, book, board, o)
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
			waitFor(t, fmt.Sprintf("%s: region %d to have %d of %s left", when, r, want, key), func() bool {
				for _, g := range nodes[r] { // they go on asking for more than there is
					if d, err := g.Take(t.Context(), headgate.Check{Key: key, Limit: limit, Cost: limit.Capacity()}); err != nil || d.Allowed {
						t.Fatalf("got %+v, %v, want denied", d, err)
					}
				}
				d, err := stores[r].Take(t.Context(), headgate.Check{Key: key, Limit: limit})
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
	// A region that loses all begins anew, and tells nobody of what was told.
	if _, err := homes[0].Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0][0].Charge(t.Context(), headgate.Check{Key: "bucket", Limit: limit, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the other to hear of one more", func() bool {
		// Whoever speaks for the region does so when it is asked for the key.
		if d, err := nodes[0][0].Take(t.Context(), headgate.Check{Key: "bucket", Limit: limit, Cost: limit.Capacity()}); err != nil || d.Allowed {
			t.Fatalf("got %+v, %v, want denied", d, err)
		}
		takeRegion(t, nodes[1][0], "bucket", limit, 1)
		d, err := stores[1].Take(t.Context(), headgate.Check{Key: "bucket", Limit: limit})
		if err != nil || d.Remaining < -63 {
			t.Fatalf("remaining: got %d, %v, want -63", d.Remaining, err)
		}
		return d.Remaining == -63
	})
}
