package harness

import (
	"math/bits"
)

// A Histogram counts durations in nanoseconds on a logarithmic scale. It is exact below 64 ns, and within 1/32 above.
// Its size is fixed, and Record does not allocate. The zero Histogram is empty.
type Histogram struct {
	Counts [buckets]int64
	Total  int64
	Sum    int64
	Max    int64
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

// bucketTop returns the largest value of a bucket.
func bucketTop(i int) int64 {
	if i < 1<<(subBits+1) {
		return int64(i)
	}
	shift := i>>subBits - 1
	mantissa := int64(i - shift<<subBits)
	return (mantissa+1)<<shift - 1
}

// Record counts one duration.
func (h *Histogram) Record(ns int64) {
	h.Counts[bucketOf(ns)]++
	h.Total++
	h.Sum += ns
	h.Max = max(h.Max, ns)
}

// Merge adds the durations that another histogram has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, count := range o.Counts {
		h.Counts[i] += count
	}
	h.Total, h.Sum, h.Max = h.Total+o.Total, h.Sum+o.Sum, max(h.Max, o.Max)
}

// Quantile returns a value that the share q of the recorded durations does not exceed. It returns 0 if there are none.
func (h *Histogram) Quantile(q float64) int64 {
	if h.Total == 0 {
		return 0
	}
	rank := int64(q * float64(h.Total))
	if float64(rank) < q*float64(h.Total) {
		rank++
	}
	rank = min(max(rank, 1), h.Total)
	var seen int64
	for i, n := range h.Counts {
		if seen += n; seen >= rank {
			return min(bucketTop(i), h.Max)
		}
	}
	return h.Max
}

// Above returns how many recorded durations are longer, within the precision of the buckets.
func (h *Histogram) Above(ns int64) int64 {
	var n int64
	for _, count := range h.Counts[bucketOf(ns)+1:] {
		n += count
	}
	return n
}

// Mean returns the mean of the recorded values.
func (h *Histogram) Mean() float64 {
	if h.Total == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Total)
}
