package harness

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBucketsAreInOrderAndWithinOne32nd(t *testing.T) {
	last := -1
	for v := int64(0); v < 1<<40; v += max(1, v/97) {
		i := bucketOf(v)
		if i < last {
			t.Fatalf("bucketOf(%d) = %d, below the bucket %d of a smaller value", v, i, last)
		}
		last = i
		top := bucketTop(i)
		if top < v || float64(top) > float64(v)*(1+1.0/32)+1 {
			t.Fatalf("bucketTop(bucketOf(%d)) = %d, want at most 1/32 above", v, top)
		}
		if next := bucketOf(top + 1); next != i+1 {
			t.Fatalf("bucketOf(%d) = %d, want %d, the next", top+1, next, i+1)
		}
	}
	if i := bucketOf(1<<63 - 1); i >= buckets {
		t.Fatalf("the longest duration falls into bucket %d of %d", i, buckets)
	}
}

func TestQuantilesAreThoseOfSortedValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	values := make([]int64, 100_000)
	for i := range values {
		values[i] = int64(rng.ExpFloat64() * 10_000)
		h.Record(values[i])
	}
	slices.Sort(values)
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999, 0.9999, 1} {
		want := values[int(q*float64(len(values)))-1]
		got := h.Quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/32)+1 {
			t.Errorf("quantile(%v) = %d, want %d or up to 1/32 more", q, got, want)
		}
	}
	if got, want := h.Max, values[len(values)-1]; got != want {
		t.Errorf("max = %d, want %d", got, want)
	}
}

func TestHistogramCountsWhatIsAbove(t *testing.T) {
	var h Histogram
	for _, v := range []int64{1, 99_000, 110_000, 5_000_000} {
		h.Record(v)
	}
	if got := h.Above(100_000); got != 2 {
		t.Errorf("above(100 µs) = %d, want 2", got)
	}
	if got, want := h.Mean(), float64(1+99_000+110_000+5_000_000)/4; got != want {
		t.Errorf("mean = %v, want %v", got, want)
	}
}

func TestEmptyHistogramSaysZero(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Mean() != 0 || h.Above(0) != 0 {
		t.Errorf("empty: p99 %d, mean %v, above %d, want 0", h.Quantile(0.99), h.Mean(), h.Above(0))
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(12345) }); n != 0 {
		t.Errorf("record allocates %v times", n)
	}
}
