package core

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

func TestKeysAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	harness.EachKey(100_000, true, func(key string) {
		if len(key) != harness.KeyBytes || seen[key] {
			t.Fatalf("key %q has %d bytes, seen before: %v", key, len(key), seen[key])
		}
		seen[key] = true
	})
	for i, key := range harness.KeyList(1000, func(i int) int { return i }) {
		if !seen[key] {
			t.Fatalf("key %d of the list, %q, is not what eachKey says", i, key)
		}
	}
}

func TestSequencesAreTheSameForAllAndOfTheirOrder(t *testing.T) {
	const keys, picks = 10_000, 1 << 16
	for _, order := range []string{harness.Uniform, harness.Zipf} {
		s := harness.NewSequence(order, keys, picks)
		if !slices.Equal(s, harness.NewSequence(order, keys, picks)) {
			t.Errorf("%s: two sequences differ", order)
		}
		counts := make([]int, keys)
		for _, k := range s {
			counts[k]++
		}
		top := float64(slices.Max(counts)) / picks
		if order == harness.Uniform && top > 0.001 || order == harness.Zipf && (top < 0.05 || top > 0.2) {
			t.Errorf("%s: the most frequent key has a share of %v", order, top)
		}
	}
}

func TestMeasureAsksExactlyWhatItReports(t *testing.T) {
	const keys, ops = 100, 1 << 10
	w := newWorkload(keys, 1<<12)
	c, err := limiters.NewFloorTable(limiters.Quotas["steady"], keys)
	if err != nil {
		t.Fatal(err)
	}
	got := w.measure(c, harness.Uniform, 2, ops, 0)
	if got.Decisions != ops || got.Admitted != ops || got.Nanoseconds <= 0 {
		t.Errorf("measure = %+v, want %d decisions, all admitted, in some time", got, ops)
	}
}

func TestRequestsHaveTheirOwnCopiesOfTheKeysPicked(t *testing.T) {
	const keys, picks = 50, 1 << 10
	named := harness.KeyList(keys, func(i int) int { return i })
	requests := newWorkload(keys, picks).sequence(harness.Uniform)
	for i, k := range harness.NewSequence(harness.Uniform, keys, picks) {
		if requests[i] != named[k] {
			t.Fatalf("request %d has key %q, want %q", i, requests[i], named[k])
		}
		if i > 0 && unsafe.StringData(requests[i]) == unsafe.StringData(requests[i-1]) {
			t.Fatalf("requests %d and %d share a copy of their key", i-1, i)
		}
	}
}
