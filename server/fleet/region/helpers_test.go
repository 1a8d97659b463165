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

// A memoryStore is a fleet.RegionStore in memory.
type memoryStore struct {
	mu   sync.Mutex
	keys map[string]*regionKey
}

type regionKey struct {
	start, window, total int64
	sender               string
	until, learned       int64
	nodes, regions       map[string][2]int64 // start and total
	sentAt               map[string]int64    // by region
	tooLarge             map[string]bool     // by region
}

func newMemoryStore() *memoryStore { return &memoryStore{keys: make(map[string]*regionKey)} }

func (b *memoryStore) Report(
	_ context.Context, node string, hold time.Duration, records []fleet.NodeRecord, reported func(int, fleet.RegionRecord),
) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UnixMicro()
	for i, r := range records {
		k := b.keys[r.Key]
		if k == nil {
			k = &regionKey{
				start: now, window: r.Window, nodes: map[string][2]int64{}, regions: map[string][2]int64{},
				sentAt: map[string]int64{}, tooLarge: map[string]bool{},
			}
			b.keys[r.Key] = k
		}
		if r.Window < k.window {
			reported(i, fleet.RegionRecord{Learned: true, Start: k.start, Total: k.total, Now: now})
			continue
		}
		if r.Window > k.window {
			k.window, k.start, k.total = r.Window, max(now, k.start+1), 0
		}
		base := r.Reported
		if known, ok := k.nodes[node]; ok {
			switch {
			case known[0] == r.Start:
				base = known[1]
			case known[0] > r.Start:
				base = r.Total
			default:
				base = 0
			}
		}
		k.total += max(0, r.Total-base)
		k.nodes[node] = [2]int64{r.Start, max(r.Total, base)}
		sender := k.sender == node || k.until < now
		if sender {
			k.sender, k.until = node, now+hold.Microseconds()
			if r.Learned {
				k.learned = now
			}
		}
		reported(i, fleet.RegionRecord{
			Sender: sender, Learned: now-k.learned <= 2*hold.Microseconds(), Start: k.start, Total: k.total, Now: now,
		})
	}
	return nil, nil
}

func (b *memoryStore) Settle(_ context.Context, totals []fleet.RemoteTotal, growth func(int, fleet.Growth)) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range totals {
		k := b.keys[t.Key]
		known, ok := k.regions[t.Region]
		base, most := int64(0), t.MaxTotal
		switch same := ok && known[0] == t.Start; {
		case ok && known[0] > t.Start:
			growth(i, fleet.Growth{})
			continue
		case same && t.Total < known[1]:
			growth(i, fleet.Growth{Fell: t.SentAt > k.sentAt[t.Region]})
			continue
		case same && known[1] > 0:
			base, most = known[1], t.MaxGrowth
		default:
			k.tooLarge[t.Region] = false
		}
		units := t.Total - base
		tooLarge := units > most
		if tooLarge {
			units = most
			if k.tooLarge[t.Region] {
				units = 0
			}
		}
		k.regions[t.Region], k.sentAt[t.Region] = [2]int64{t.Start, base + units}, t.SentAt
		k.tooLarge[t.Region] = tooLarge
		growth(i, fleet.Growth{Units: units, First: !ok, TooLarge: tooLarge})
	}
	return nil, nil
}

// A land is a region of a test: nodes that share a store.
type land struct {
	store  *memstore.Store
	totals *memoryStore
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
		totals := newMemoryStore()
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
