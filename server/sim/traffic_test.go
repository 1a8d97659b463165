package sim

import (
	"testing"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

func TestDiurnalTrafficHasItsMeanAndPeak(t *testing.T) {
	t.Parallel()
	for _, peak := range []float64{100, 150, 200, 300, 1000} {
		spec := &scenario.Source{Rate: 100, Peak: scenario.Number(peak), Period: time.Minute}
		s := &source{spec: spec, shape: diurnalShape(100 / peak)}
		sum, most := 0.0, 0.0
		const steps = 60_000
		for i := range steps {
			rate := s.rateAt(time.Duration(i) * time.Minute / steps)
			if rate < 0 {
				t.Fatalf("peak %g: the rate is %g", peak, rate)
			}
			sum, most = sum+rate, max(most, rate)
		}
		if mean := sum / steps; mean < 99.9 || mean > 100.1 || most < peak*0.999 || most > peak*1.001 {
			t.Errorf("got a mean of %g and a peak of %g, want 100 and %g", mean, most, peak)
		}
	}
}
