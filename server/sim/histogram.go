package sim

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets. The largest duration of a bucket is at most 1/16 above its smallest.
type histogram struct {
	counts [64 * subBuckets]int64
	total  int64
	sum    time.Duration
	most   time.Duration
}

const (
	subBits    = 4
	subBuckets = 1 << subBits
)

func (h *histogram) add(d time.Duration) {
	h.total++
	h.sum += d
	h.most = max(h.most, d)
	h.counts[bucketOf(uint64(d))]++
}

// join adds the durations of another histogram.
func (h *histogram) join(o *histogram) {
	addAll(h.counts[:], o.counts[:])
	h.total, h.sum, h.most = h.total+o.total, h.sum+o.sum, max(h.most, o.most)
}

func bucketOf(n uint64) int {
	if n < subBuckets {
		return int(n)
	}
	exponent := bits.Len64(n) - 1 - subBits
	return exponent*subBuckets + int(n>>exponent)
}

// upper returns the largest duration of a bucket.
func upper(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)
	}
	exponent := bucket/subBuckets - 1
	return time.Duration((uint64(bucket%subBuckets+subBuckets)+1)<<exponent - 1)
}

// quantile returns a duration d: the given part of all durations is at most d. part is from 0 to 1.
func (h *histogram) quantile(part float64) time.Duration {
	rest := int64(part * float64(h.total))
	for i, n := range h.counts {
		if rest -= n; rest < 0 {
			return min(upper(i), h.most)
		}
	}
	return h.most
}

func (h *histogram) mean() time.Duration {
	if h.total == 0 {
		return 0
	}
	return h.sum / time.Duration(h.total)
}
