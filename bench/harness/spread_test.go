package harness

import (
	"testing"
)

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		name    string
		samples []float64
		want    spread
	}{
		{"none", nil, spread{}},
		{"one", []float64{7}, spread{7, 7, 7, 7, 7}},
		{"two", []float64{4, 2}, spread{Median: 3, Q1: 2.5, Q3: 3.5, Min: 2, Max: 4}},
		{"odd", []float64{5, 1, 4, 2, 3}, spread{Median: 3, Q1: 2, Q3: 4, Min: 1, Max: 5}},
		{"one outlier leaves the median", []float64{10, 10, 10, 10, 1000}, spread{Median: 10, Q1: 10, Q3: 10, Min: 10, Max: 1000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := SpreadOf(test.samples); got != test.want {
				t.Errorf("spreadOf(%v) = %+v, want %+v", test.samples, got, test.want)
			}
		})
	}
}

func TestSpreadLeavesItsSamplesInOrder(t *testing.T) {
	samples := []float64{3, 1, 2}
	SpreadOf(samples)
	if samples[0] != 3 || samples[1] != 1 || samples[2] != 2 {
		t.Errorf("samples are now %v", samples)
	}
}
