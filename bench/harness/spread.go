package harness

import (
	"math"
	"slices"
)

// A spread has the median of repeated measurements, and the range of the middle half of them.
type spread struct {
	Median, Q1, Q3, Min, Max float64
}

// SpreadOf returns the spread of samples. It is zero if there are none.
func SpreadOf(samples []float64) spread {
	if len(samples) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	return spread{
		Median: quantileOf(sorted, 0.5),
		Q1:     quantileOf(sorted, 0.25),
		Q3:     quantileOf(sorted, 0.75),
		Min:    sorted[0],
		Max:    sorted[len(sorted)-1],
	}
}

// quantileOf interpolates between the two samples next to q.
func quantileOf(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := math.Floor(at)
	i := int(low)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-low)*(sorted[i+1]-sorted[i])
}

// MedianOf returns the median of samples.
func MedianOf(samples []float64) float64 { return SpreadOf(samples).Median }
