package region

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A homeBook is a RegionBook in memory.
type homeBook struct {
	mu   sync.Mutex
	keys map[string]*homeKey
}

type homeKey struct {
	start, window, total int64
	speaker              string
	until, learned       int64
	nodes, regions       map[string][2]int64 // start and total
	said                 map[string]int64    // of regions
	leaped               map[string]bool
}

func newHomeBook() *homeBook { return &homeBook{keys: make(map[string]*homeKey)} }

func (b *homeBook) Report(_ context.Context, node string, keys []string, starts, windows, totals, told []int64, learned []bool,
	_ []time.Duration, hold time.Duration, reported func(int, bool, bool, int64, int64, int64),
) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UnixMicro()
	for i, name := range keys {
		k := b.keys[name]
		if k == nil {
			k = &homeKey{start: now, window: windows[i], nodes: map[string][2]int64{}, regions: map[string][2]int64{}, said: map[string]int64{}, leaped: map[string]bool{}}
			b.keys[name] = k
		}
		if windows[i] < k.window {
			reported(i, false, true, k.start, k.total, now)
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
			if learned[i] {
				k.learned = now
			}
		}
		reported(i, speaks, now-k.learned <= 2*hold.Microseconds(), k.start, k.total, now)
	}
	return nil, nil
}

func (b *homeBook) Settle(_ context.Context, keys, regions []string, starts, totals, said, all, most []int64, _ []time.Duration,
	growth func(int, int64, bool, bool, bool),
) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, name := range keys {
		k := b.keys[name]
		known, ok := k.regions[regions[i]]
		base, can := int64(0), all[i]
		switch same := ok && known[0] == starts[i]; {
		case ok && known[0] > starts[i]:
			growth(i, 0, false, false, false)
			continue
		case same && totals[i] < known[1]:
			growth(i, 0, false, false, said[i] > k.said[regions[i]])
			continue
		case same && known[1] > 0:
			base, can = known[1], most[i]
		default:
			k.leaped[regions[i]] = false
		}
		units := totals[i] - base
		leaped := units > can
		if leaped {
			units = can
			if k.leaped[regions[i]] {
				units = 0
			}
		}
		k.regions[regions[i]], k.said[regions[i]], k.leaped[regions[i]] = [2]int64{starts[i], base + units}, said[i], leaped
		growth(i, units, !ok, leaped, false)
	}
	return nil, nil
}

// A land is a region of a test: nodes that share a store.
type land struct {
	store *memstore.Store
	book  *homeBook
	nodes []*Limiter
}

// startNode starts a node of a region.
func startNode(t testing.TB, s *fleettest.Board, store headgate.Limiter, book Book, o Options) *Limiter {
	t.Helper()
	g, err := New(fleet.LedgerOptions{
		Secret:    fleettest.Secret,
		OnRefused: func(from fleet.Peer, why string) { t.Errorf("refused a tally of %v: %s", from, why) },
	}, store, book, s.Node(o.Author()), o)
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
		book := newHomeBook()
		l := &land{store: store, book: book}
		for n := range nodes {
			o := Options{
				Region: fmt.Sprint("region ", r), Node: fmt.Sprintf("node %d/%d", r, n), Rand: rand.New(rand.NewPCG(uint64(r), uint64(n))).Int64N,
				OnEvent: func(e fleet.Event) { t.Errorf("an event: %v %v", e.Kind, e.Err) },
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
