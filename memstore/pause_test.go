//go:build !race

package memstore

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// What is measured here would measure the race detector under it.

func TestPauseOfASplitIsShort(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	p, err := s.newPlan(headgate.MustParseLimit("1000/h"))
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range 200 {
		g := newSegment(maxSlots, 0)
		for !g.full(int(g.depth)) {
			tag := tagOf(rand.Uint64())
			g.add(tag<<layoutBits|p.id, p.seal(tag, algorithm.Pair{Time: s.now(), Units: 1, Last: s.now()}))
		}
		start := time.Now()
		found := g.survey(&s.layouts, s.now(), s.now(), 32)
		sift := tidyOptions{layouts: &s.layouts, ref: s.now(), now: s.now(), moveBits: 1 << 51}
		g.tidy(&sift)
		newSegment(maxSlots, 1).fill(sift.moved)
		took = append(took, time.Since(start))
		if found.dead != 0 {
			t.Fatalf("%d entries are dead, want none", found.dead)
		}
	}
	slices.Sort(took)
	undisturbed := took[len(took)/10] // on a busy machine others come in between
	t.Logf("a split of %d entries: %s undisturbed, median %s, longest %s",
		maxSlots*fullIn64/64, undisturbed, took[len(took)/2], took[len(took)-1])
	if undisturbed > 100*time.Microsecond {
		t.Errorf("a split takes %s, want at most 100µs", undisturbed)
	}
}

func TestMemoryPerKey(t *testing.T) {
	clock := &fakeClock{} // nothing dies meanwhile
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, "1000/h")
	next, least, most := 0, 1e9, 0.0
	for _, size := range []int{1_000_000, 1_200_000, 1_400_000, 1_600_000, 1_800_000, 2_000_000} {
		for ; next < size; next++ {
			b.Allow(key(next))
		}
		got := s.Stats()
		each := float64(got.Bytes) / float64(got.Keys)
		t.Logf("%d keys: %.1f bytes a key", got.Keys, each)
		least, most = min(least, each), max(most, each)
	}
	if most > 40 || least > 28 {
		t.Errorf("%.1f to %.1f bytes a key, want at most 40, and 28 at best", least, most)
	}
}

// A collection takes as long as what it has to scan.
func TestCollectionHasNothingToScan(t *testing.T) {
	const keys, most = 1_000_000, 1 << 20
	before := scanned()
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, "1000/h")
	for i := range keys {
		b.Allow(key(i))
	}
	got := scanned() - before
	t.Logf("beside a million keys in %d bytes, %d bytes more are scanned", s.Stats().Bytes, got)
	if got > most {
		t.Errorf("%d bytes of a store with %d keys are scanned, want at most %d: something has pointers", got, keys, most)
	}
	runtime.KeepAlive(s)
}

// scanned returns how much of the heap a collection has to look at for pointers.
func scanned() int64 {
	runtime.GC()
	runtime.GC() // what the one before has left to sweep does not count any more
	sample := []metrics.Sample{{Name: "/gc/scan/heap:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
