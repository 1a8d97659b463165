package overload

import (
	"runtime/metrics"
	"slices"
	"time"
)

const (
	schedulerLatencies = "/sched/latencies:seconds"
	// quantile is the share of waits that are at most as long as the wait that SchedulerWait returns.
	quantile = 0.9
	// minWaits is the minimum number of waits; with fewer waits, the result is 0.
	minWaits = 10
)

// SchedulerWait returns a function that measures this process. The function returns how long goroutines have waited for
// a core since its last call: nine of ten waits were at most that long. It is not safe for concurrent use.
func SchedulerWait() func() time.Duration {
	sample := []metrics.Sample{{Name: schedulerLatencies}}
	var before []uint64
	return func() time.Duration {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return 0
		}
		h := sample[0].Value.Float64Histogram()
		if before == nil {
			before = slices.Clone(h.Counts)
			return 0
		}
		counts := make([]uint64, len(h.Counts))
		for i := range counts {
			counts[i] = h.Counts[i] - before[i]
		}
		copy(before, h.Counts)
		return quantileOf(counts, h.Buckets)
	}
}

// quantileOf returns the quantile of a histogram, as the lower bound of its bucket. The bucket of counts[i] is from
// buckets[i] to buckets[i+1] seconds.
func quantileOf(counts []uint64, buckets []float64) time.Duration {
	var total, below uint64
	for _, n := range counts {
		total += n
	}
	if total < minWaits {
		return 0
	}
	for i, n := range counts {
		if below += n; float64(below) >= quantile*float64(total) {
			return max(0, time.Duration(buckets[i]*float64(time.Second)))
		}
	}
	return 0
}
