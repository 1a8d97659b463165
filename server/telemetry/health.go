package telemetry

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/headgate/headgate"
)

// FailingOpen returns the number of requests of each rule that on_failure: open has admitted because the store failed,
// and the number of these requests, each counted once. Shadow rules do not count: they limit nothing anyway.
func (m *Metrics) FailingOpen() (counts map[string]uint64, requests uint64) {
	counts = map[string]uint64{}
	for id, c := range m.decisions.table.Load().byID {
		if n := c.degraded[headgate.Open].Load(); n > 0 {
			counts[id] = n
		}
	}
	return counts, m.decisions.unlimited.Load()
}

// OtherFallbacks returns the number of requests of each rule that on_failure: closed or local has decided because the
// store failed.
func (m *Metrics) OtherFallbacks() map[string]uint64 {
	counts := map[string]uint64{}
	for id, c := range m.decisions.table.Load().byID {
		if n := c.degraded[headgate.Closed].Load() + c.degraded[headgate.Local].Load(); n > 0 {
			counts[id] = n
		}
	}
	return counts
}

// Degraded returns the number of requests that were decided without the store, because it failed.
func (m *Metrics) Degraded() uint64 { return m.decisions.degraded.Load() }

// StoreCalls returns the distribution of the durations of all calls to the remote store so far.
func (m *Metrics) StoreCalls() Distribution {
	metrics := make(chan prometheus.Metric, 64)
	go func() {
		m.storeTime.Collect(metrics)
		close(metrics)
	}()
	sum := map[float64]uint64{}
	for metric := range metrics {
		var data dto.Metric
		if metric.Write(&data) != nil {
			continue // a histogram can always be written
		}
		for _, b := range data.GetHistogram().GetBucket() {
			sum[b.GetUpperBound()] += b.GetCumulativeCount()
		}
		sum[math.Inf(1)] += data.GetHistogram().GetSampleCount()
	}
	var d Distribution
	for bound, count := range sum {
		d = append(d, BucketCount{bound, count})
	}
	slices.SortFunc(d, func(a, b BucketCount) int {
		if a.Seconds < b.Seconds {
			return -1
		}
		return 1
	})
	return d
}

// A Distribution is a histogram of durations, with ascending bounds.
type Distribution []BucketCount

// A BucketCount is the number of durations up to a bound.
type BucketCount struct {
	Seconds float64
	Count   uint64
}

// QuantileSince returns a quantile, in seconds, of the durations that were recorded since an earlier Distribution.
// share is the share of durations below the quantile, such as 0.99. QuantileSince returns 0 if no durations were
// recorded, and at most the last finite bound.
func (d Distribution) QuantileSince(earlier Distribution, share float64) float64 {
	before := map[float64]uint64{}
	for _, b := range earlier {
		before[b.Seconds] = b.Count
	}
	count := func(i int) float64 { return float64(d[i].Count - min(d[i].Count, before[d[i].Seconds])) }
	if len(d) == 0 || count(len(d)-1) == 0 {
		return 0
	}
	want := share * count(len(d)-1)
	low, below := 0.0, 0.0
	for i := range d {
		n := count(i)
		switch {
		case n < want:
			low, below = d[i].Seconds, n
		case math.IsInf(d[i].Seconds, 1):
			return low
		default:
			return low + (d[i].Seconds-low)*(want-below)/max(n-below, 1e-9)
		}
	}
	return low
}
