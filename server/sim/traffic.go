package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// A source generates the requests of a scenario.Source.
type source struct {
	world  *world
	spec   *scenario.Source
	random *rand.Rand
	zipf   *rand.Zipf // nil if all clients send equally
	at     time.Duration
	base   uint64        // added to the number of a client, so that clients with different prefixes are different
	replay *replay       // nil if requests are generated
	next   uint64        // client of the next request
	shape  float64       // exponent of the pattern diurnal; see rateAt
	rates  []float64     // rates of the pattern diurnal; see isBelowRate
	bursts *clientBursts // nil if clients do not pause
	send   func()        // sends the next request, and schedules the one after it

	interrupted func() bool // reports whether the simulation is to end early
	skipped     int         // number of times that were skipped; see isInterrupted
}

// startTraffic schedules the first request of every source. Sources end early if interrupted returns true.
func (w *world) startTraffic(interrupted func() bool) {
	for i := range w.scenario.Traffic {
		spec := &w.scenario.Traffic[i]
		s := &source{
			world: w, spec: spec, random: rand.New(rand.NewPCG(uint64(w.scenario.Seed), 1000+uint64(i))), at: spec.From,
			base: hashKey(spec.Prefix) << 32, shape: diurnalShape(float64(spec.Rate) / float64(spec.Peak)),
			interrupted: interrupted,
		}
		switch {
		case spec.ClientOn > 0:
			s.bursts = newClientBursts(spec)
		case spec.Zipf > 0:
			s.zipf = rand.NewZipf(s.random, float64(spec.Zipf), 1, uint64(spec.Clients-1))
		}
		s.send = func() {
			w.arrive(&request{source: s, client: s.base + s.next})
			s.schedule()
		}
		if spec.Log == "" {
			s.schedule()
			continue
		}
		var err error
		if s.replay, err = newReplay(spec); err != nil {
			w.fail(err)
			return
		}
		w.replays = append(w.replays, s.replay)
		s.scheduleReplay()
	}
}

// schedule schedules the next request, if there is one.
func (s *source) schedule() {
	var ok bool
	if s.next, ok = s.advance(); ok {
		s.world.loop.After(s.at-s.world.loop.Now(), s.send)
	}
}

// advance moves to the next request of a simulated client, and returns the client. ok is false at the end of the
// source.
func (s *source) advance() (client uint64, ok bool) {
	for {
		if !s.advanceTime() || s.at >= s.spec.Until {
			return 0, false
		}
		if client, ok := s.client(); ok && s.world.simulates(client) {
			return client, true
		}
	}
}

// advanceTime moves to the time of the next request of any client. It returns false at the end of the source.
func (s *source) advanceTime() bool {
	for s.at < s.spec.Until && !s.isInterrupted() {
		s.skipPause()
		switch s.spec.Pattern {
		case scenario.Constant:
			s.at += pause(1 / float64(s.spec.Rate))
			if !s.pauses() {
				return true
			}
		case scenario.Diurnal:
			peak := float64(s.spec.Peak)
			s.at += s.interval(peak)
			if s.isBelowRate(s.random.Float64()*peak, s.at) && !s.pauses() {
				return true
			}
		default:
			s.at += s.interval(float64(s.spec.Rate))
			if !s.pauses() {
				return true
			}
		}
	}
	return false
}

// isInterrupted reports whether the simulation is to end early. A source may skip billions of times until its next
// request, because no client sends or because their clients are not simulated. So it checks this regularly.
func (s *source) isInterrupted() bool {
	const check = 1 << 12
	s.skipped++
	return s.skipped%check == 0 && s.interrupted != nil && s.interrupted()
}

// interval returns a random time between two requests.
func (s *source) interval(rate float64) time.Duration { return pause(s.random.ExpFloat64() / rate) }

// pause returns a number of seconds as a duration. It is at least 1 ns, so that time passes, and at most so long that no
// source sends again.
func pause(seconds float64) time.Duration {
	return max(1, time.Duration(min(seconds*float64(time.Second), float64(2*scenario.MaxDuration))))
}

// rateAt returns the rate of the pattern diurnal at the time t. It is lowest at the beginning and the end of a period.
// Usually the rate is a sine around the mean. If the peak is more than twice the mean, such a sine would sometimes be
// negative. Then the rate is a power of a sine from zero to the peak.
func (s *source) rateAt(t time.Duration) float64 {
	phase := float64(t%s.spec.Period) / float64(s.spec.Period)
	mean, peak := float64(s.spec.Rate), float64(s.spec.Peak)
	cosine := math.Cos(2 * math.Pi * phase)
	if s.shape <= 1 {
		return mean - float64((peak-mean)*cosine) // rounded, so all machines get the same rate
	}
	return peak * math.Pow((1-cosine)/2, s.shape)
}

// rateSteps is the number of steps from the lowest rate to the highest.
const rateSteps = 1024

// isBelowRate reports whether x is less than the rate of the pattern diurnal at the time t. It takes long to compute
// that rate exactly, so isBelowRate does it only if x is close to the rate.
func (s *source) isBelowRate(x float64, t time.Duration) bool {
	half := float64(s.spec.Period) / 2
	if s.rates == nil {
		for i := range rateSteps + 1 {
			s.rates = append(s.rates, s.rateAt(time.Duration(half*float64(i)/rateSteps)))
		}
	}
	step := int((1 - math.Abs(float64(t%s.spec.Period)/half-1)) * rateSteps)
	switch { // the rate is between the rates of the two nearest steps; one more step on each side allows for rounding
	case x < s.rates[max(step-1, 0)]:
		return true
	case x >= s.rates[min(step+2, rateSteps)]:
		return false
	default:
		return x < s.rateAt(t)
	}
}

// diurnalShape returns an exponent. A sine from 0 to 1, raised to this exponent, has the given mean. For a mean of at
// least 0.5 the exponent is 1. diurnalShape searches for it, because no formula computes it from the mean.
func diurnalShape(mean float64) float64 {
	low, high := 1.0, 1e9
	for range 100 {
		middle := math.Sqrt(low * high)
		above, _ := math.Lgamma(middle + 0.5)
		below, _ := math.Lgamma(middle + 1)
		if math.Exp(above-below)/math.Sqrt(math.Pi) > mean {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// pauses reports whether the source pauses between two bursts.
func (s *source) pauses() bool {
	return s.spec.On > 0 && (s.at-s.spec.From)%(s.spec.On+s.spec.Off) >= s.spec.On
}

// skipPause moves to the beginning of the next burst, if the source pauses.
func (s *source) skipPause() {
	if s.pauses() {
		period := s.spec.On + s.spec.Off
		s.at += period - (s.at-s.spec.From)%period
	}
}

// client chooses the client of a request at random. ok is false if all clients pause.
func (s *source) client() (client uint64, ok bool) {
	switch {
	case s.bursts != nil:
		return s.bursts.draw(s.at, s.random.Float64())
	case s.zipf != nil:
		return s.zipf.Uint64(), true
	case s.spec.Clients > 1:
		return s.random.Uint64N(uint64(s.spec.Clients)), true
	default:
		return 0, true
	}
}
