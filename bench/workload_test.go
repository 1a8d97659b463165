package main

import (
	"slices"
	"testing"
)

func TestKeysAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	eachKey(100_000, true, func(key string) {
		if len(key) != keyBytes || seen[key] {
			t.Fatalf("key %q has %d bytes, seen before: %v", key, len(key), seen[key])
		}
		seen[key] = true
	})
	for i, key := range keyList(1000, func(i int) int { return i }) {
		if !seen[key] {
			t.Fatalf("key %d of the list, %q, is not what eachKey says", i, key)
		}
	}
}

func TestSequencesAreTheSameForAllAndOfTheirOrder(t *testing.T) {
	const keys, picks = 10_000, 1 << 16
	for _, order := range []string{uniform, zipf} {
		s := newSequence(order, keys, picks)
		if !slices.Equal(s, newSequence(order, keys, picks)) {
			t.Errorf("%s: two sequences differ", order)
		}
		counts := make([]int, keys)
		for _, k := range s {
			counts[k]++
		}
		top := float64(slices.Max(counts)) / picks
		if order == uniform && top > 0.001 || order == zipf && (top < 0.05 || top > 0.2) {
			t.Errorf("%s: the most frequent key has a share of %v", order, top)
		}
	}
}

func TestMeasureAsksExactlyWhatItReports(t *testing.T) {
	const keys, ops = 100, 1 << 10
	w := newWorkload(keys, 1<<12)
	c, err := newFloorTable(quotas["steady"], keys)
	if err != nil {
		t.Fatal(err)
	}
	got := w.measure(c, uniform, 2, ops, 0)
	if got.Decisions != ops || got.Admitted != ops || got.Nanoseconds <= 0 {
		t.Errorf("measure = %+v, want %d decisions, all admitted, in some time", got, ops)
	}
}

func TestASampleStandsForManyKeys(t *testing.T) {
	w := newWorkload(listedKeys+1, 1<<10)
	s := w.sequence(uniform)
	if len(w.keys) != 1<<10 || len(s) != 1<<10 || s[0] != 0 || s[1] != 1 {
		t.Errorf("%d keys and %d picks %v…, want a sample of %d in order", len(w.keys), len(s), s[:2], 1<<10)
	}
}
