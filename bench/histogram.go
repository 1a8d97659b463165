package main

import "math/bits"

// A histogram counts durations in nanoseconds on a logarithmic scale: exact below 64, within 1/32 above. It is of fixed
// size and Record allocates nothing. The zero histogram is empty.
type histogram struct {
	counts [buckets]int64
	total  int64
	sum    int64
	max    int64
}

const (
	subBits = 5 // 32 buckets for every doubling
	buckets = (64 - subBits) << subBits
)

func bucketOf(ns int64) int {
	v := uint64(max(ns, 0))
	if v < 1<<(subBits+1) {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// bucketTop returns the largest value that falls into a bucket.
func bucketTop(i int) int64 {
	if i < 1<<(subBits+1) {
		return int64(i)
	}
	shift := i>>subBits - 1
	mantissa := int64(i - shift<<subBits)
	return (mantissa+1)<<shift - 1
}

// record counts one duration.
func (h *histogram) record(ns int64) {
	h.counts[bucketOf(ns)]++
	h.total++
	h.sum += ns
	h.max = max(h.max, ns)
}

// quantile returns a value that the share q of what was recorded does not exceed; 0 of nothing.
func (h *histogram) quantile(q float64) int64 {
	if h.total == 0 {
		return 0
	}
	rank := int64(q * float64(h.total))
	if float64(rank) < q*float64(h.total) {
		rank++
	}
	rank = min(max(rank, 1), h.total)
	var seen int64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(bucketTop(i), h.max)
		}
	}
	return h.max
}

// above returns how many were longer, by the buckets' precision.
func (h *histogram) above(ns int64) int64 {
	var n int64
	for _, count := range h.counts[bucketOf(ns)+1:] {
		n += count
	}
	return n
}

func (h *histogram) mean() float64 {
	if h.total == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.total)
}
