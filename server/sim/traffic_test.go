package sim

import (
	"math"
	"math/rand/v2"
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

func TestRatesAreComparedExactly(t *testing.T) {
	t.Parallel()
	for _, peak := range []float64{150, 300, 1000} {
		spec := &scenario.Source{Rate: 100, Peak: scenario.Number(peak), Period: time.Minute + 1}
		s := &source{spec: spec, shape: diurnalShape(100 / peak)}
		for at := time.Duration(0); at < 2*time.Minute; at += 7 * time.Millisecond {
			rate := s.rateAt(at)
			for _, x := range []float64{0, 0.9 * rate, math.Nextafter(rate, 0), rate, 1.1 * rate, peak} {
				if got, want := s.isBelowRate(x, at), x < rate; got != want {
					t.Fatalf("peak %g at %v: %g is below the rate %g: got %t, want %t", peak, at, x, rate, got, want)
				}
			}
		}
	}
}

func TestSourcesSendOnlyInTheirBursts(t *testing.T) {
	t.Parallel()
	for _, pattern := range []scenario.Pattern{scenario.Poisson, scenario.Constant, scenario.Diurnal} {
		spec := &scenario.Source{
			Rate: 100, Pattern: pattern, From: time.Second, Until: 20 * time.Second, On: 95 * time.Millisecond,
			Off: 205 * time.Millisecond, Clients: 1,
		}
		if pattern == scenario.Diurnal {
			spec.Peak, spec.Period = 150, 19*time.Second
		}
		s := &source{spec: spec, random: rand.New(rand.NewPCG(1, 2)), at: spec.From, shape: diurnalShape(100.0 / 150)}
		requests := 0
		for s.advanceTime() && s.at < spec.Until {
			requests++
			if at := (s.at - spec.From) % (spec.On + spec.Off); at >= spec.On {
				t.Fatalf("%s: a request %v after the beginning of a burst of %v", pattern, at, spec.On)
			}
		}
		// 19 s have 63 bursts with 9.5 requests on average.
		if requests < 500 || requests > 700 {
			t.Errorf("%s: got %d requests, want about 600", pattern, requests)
		}
	}
}

func TestClientsSendOnlyInTheirBursts(t *testing.T) {
	t.Parallel()
	spec := &scenario.Source{Clients: 50, Zipf: 1.1, ClientOn: 3 * time.Second, ClientOff: 7 * time.Second}
	b := newClientBursts(spec)
	const draws = 20_000
	for at := time.Duration(0); at < 20*time.Second; at += 700 * time.Millisecond {
		var want [50]float64
		total := 0.0
		for c := range want {
			if (at+time.Duration(mix(uint64(c))%uint64(b.period)))%b.period < spec.ClientOn {
				want[c] = math.Pow(float64(1+c), -1.1)
				total += want[c]
			}
		}
		var got [50]float64
		for i := range draws {
			c, ok := b.draw(at, (float64(i)+0.5)/draws)
			if !ok {
				t.Fatalf("at %v: no client sends", at)
			}
			got[c]++
		}
		for c := range want {
			if want := want[c] / total * draws; math.Abs(got[c]-want) > 2 {
				t.Errorf("at %v: client %d was drawn %g times, want %g", at, c, got[c], want)
			}
		}
	}
}

func TestNobodySendsIfAllClientsPause(t *testing.T) {
	t.Parallel()
	b := newClientBursts(&scenario.Source{Clients: 1, ClientOn: time.Second, ClientOff: 9 * time.Second})
	sends := 0
	for at := time.Duration(0); at < 10*time.Second; at += 100 * time.Millisecond {
		if _, ok := b.draw(at, 0.999); ok {
			sends++
		}
	}
	if sends != 10 {
		t.Errorf("the client sends at %d of 100 times, want 10", sends)
	}
}

// The time until the next request of so rare traffic is longer than a time.Duration can be.
func TestRareTrafficSendsNothing(t *testing.T) {
	t.Parallel()
	for _, pattern := range []scenario.Pattern{scenario.Poisson, scenario.Constant, scenario.Diurnal} {
		spec := &scenario.Source{
			Rate: 1e-10, Peak: 1e-10, Pattern: pattern, Until: time.Minute, Period: time.Minute, Clients: 1,
		}
		s := &source{spec: spec, random: rand.New(rand.NewPCG(1, 2)), shape: 1}
		if s.advanceTime() && s.at < spec.Until {
			t.Errorf("%s: got a request at %v, want none", pattern, s.at)
		}
	}
}
