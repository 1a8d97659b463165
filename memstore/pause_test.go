//go:build !race

package memstore

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// What is measured here would measure the race detector under it.

func medianAndMax(d []time.Duration) (median, longest time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)-1]
}

func TestPauseOfASplitIsShort(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	var took []time.Duration
	for range 200 {
		g := newSegment(maxSlots, 0)
		for !g.full(int(g.depth)) {
			g.add(tagOf(rand.Uint64())<<lifeBits|20, pack2(s.now(), 1))
		}
		start := time.Now()
		found := g.survey(s.now(), s.now(), 32)
		sift := sieve{ref: s.now(), now: s.now(), bit: 1 << 55}
		g.tidy(&sift)
		newSegment(maxSlots, 1).fill(sift.moved)
		took = append(took, time.Since(start))
		if found.dead != 0 {
			t.Fatalf("%d entries are dead, want none", found.dead)
		}
	}
	median, longest := medianAndMax(took)
	t.Logf("a split of %d entries: median %s, longest %s", maxSlots*fullIn64/64, median, longest)
	if median > 100*time.Microsecond {
		t.Errorf("median of a split: %s, want at most 100µs", median)
	}
}

func TestMemoryPerKey(t *testing.T) {
	s := newStore(t, Options{})
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

func TestPauseOfACollectionIsShort(t *testing.T) {
	s := newStore(t, Options{})
	b := bind(t, s, "1000/h")
	for i := range 1_000_000 {
		b.Allow(key(i))
	}
	runtime.GC()
	var took []time.Duration
	for range 5 {
		start := time.Now()
		runtime.GC()
		took = append(took, time.Since(start))
	}
	median, _ := medianAndMax(took)
	t.Logf("a full collection beside a million keys: %s", median)
	if median > 20*time.Millisecond {
		t.Errorf("a full collection takes %s, want at most 20ms: something has pointers", median)
	}
	runtime.KeepAlive(s)
}
