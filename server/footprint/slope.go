package footprint

import "math"

// A Slope is the trend of a figure over time, computed by least squares.
type Slope struct {
	PerHour float64 // change per hour
	// Error is the standard error of PerHour.
	Error float64
	Mean  float64
}

// SlopeOf returns the trend of a figure that was measured once a second.
func SlopeOf(values []float64) Slope {
	n := float64(len(values))
	if n < 3 {
		return Slope{}
	}
	var sumT, sumV float64
	for i, v := range values {
		sumT += float64(i)
		sumV += v
	}
	meanT, meanV := sumT/n, sumV/n
	var tt, tv float64
	for i, v := range values {
		tt += (float64(i) - meanT) * (float64(i) - meanT)
		tv += (float64(i) - meanT) * (v - meanV)
	}
	slope := tv / tt
	var rest float64
	for i, v := range values {
		e := v - meanV - slope*(float64(i)-meanT)
		rest += e * e
	}
	const hour = 3600
	return Slope{PerHour: slope * hour, Error: math.Sqrt(rest/(n-2)/tt) * hour, Mean: meanV}
}

// IsFlat reports whether the slope is practically 0. This is so if it is within three standard errors of 0, or if the
// figure changes by at most the given part of its mean in an hour.
func (s Slope) IsFlat(part float64) bool {
	return math.Abs(s.PerHour) <= 3*s.Error || math.Abs(s.PerHour) <= part*s.Mean
}
