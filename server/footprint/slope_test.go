package footprint

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSlopeTellsGrowthFromNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(perSecond float64) []float64 {
		list := make([]float64, 300)
		for i := range list {
			list[i] = 100 + perSecond*float64(i) + 5*random.NormFloat64()
		}
		return list
	}
	if s := SlopeOf(noise(0)); !s.IsFlat(0) || math.Abs(s.Mean-100) > 2 {
		t.Errorf("noise: got %+v, want it to be flat around 100", s)
	}
	if s := SlopeOf(noise(0.1)); s.IsFlat(0.5) || math.Abs(s.PerHour-360) > 3*s.Error {
		t.Errorf("growth of 360 an hour: got %+v", s)
	}
	if s := SlopeOf(noise(0.001)); !s.IsFlat(0.1) {
		t.Errorf("growth of 3.6 %% an hour: got %+v, want it to be within 10 %%", s)
	}
	if s := SlopeOf([]float64{1, 2}); s != (Slope{}) {
		t.Errorf("two values: got %+v, want no slope", s)
	}
}
