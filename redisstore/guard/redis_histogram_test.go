package guard_test

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"testing"
	"time"
)

// A histogram counts durations, to 1.6%.
type histogram struct {
	counts  [64 * histogramSteps]atomic.Int64
	longest atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	n := uint64(max(d, 0))
	h.counts[histogramIndex(n)].Add(1)
	raise(&h.longest, int64(n))
}

func histogramIndex(n uint64) int {
	if n < histogramSteps {
		return int(n)
	}
	shift := bits.Len64(n) - histogramBits - 1
	return (shift+1)*histogramSteps + int(n>>shift) - histogramSteps
}

// count returns how many durations there are.
func (h *histogram) count() int64 {
	var n int64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// at returns what so great a share of the durations does not exceed.
func (h *histogram) at(share float64) time.Duration {
	left := int64(math.Ceil(share * float64(h.count())))
	for i := range h.counts {
		if left -= h.counts[i].Load(); left <= 0 {
			return min(histogramEdge(i), h.max())
		}
	}
	return h.max()
}

// histogramEdge returns the largest duration that is counted at an index.
func histogramEdge(i int) time.Duration {
	if i < histogramSteps {
		return time.Duration(i)
	}
	shift := i/histogramSteps - 1
	return time.Duration(uint64(i%histogramSteps+histogramSteps+1)<<shift - 1)
}

func (h *histogram) max() time.Duration { return time.Duration(h.longest.Load()) }

// merge adds what another counted.
func (h *histogram) merge(other *histogram) {
	for i := range h.counts {
		h.counts[i].Add(other.counts[i].Load())
	}
	raise(&h.longest, other.longest.Load())
}

func (h *histogram) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, longest %v of %d", h.at(0.5), h.at(0.99), h.at(0.999), h.max(), h.count())
}

func TestHistogramIsRightToTwoPercent(t *testing.T) {
	var h histogram
	for i := range 100_000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	for _, share := range []float64{0.001, 0.5, 0.99, 0.999, 1} {
		want := time.Duration(share*100_000) * time.Microsecond
		if got := h.at(share); got < want || float64(got) > 1.02*float64(want) {
			t.Errorf("%v of the durations: got %v, want %v", share, got, want)
		}
	}
}

const (
	histogramBits  = 6
	histogramSteps = 1 << histogramBits
)
