package fleettest

import (
	"math/rand/v2"
	"time"
)

// A Meter counts admitted units, and measures over-admission: by a bucket without a limit to its debt, through which
// all units pass.
type Meter struct {
	Burst, Rate float64 // per second
	level, Over float64
	Passed      int
	Last        time.Duration

	Within   time.Duration // the time over which the arrival rate λ is measured
	Arrivals []int         // per millisecond
}

// Advance drains the bucket until now.
func (j *Meter) Advance(now time.Duration) {
	j.level = max(0, j.level-j.Rate*(now-j.Last).Seconds())
	j.Last = now
}

// Pass counts n admitted units.
func (j *Meter) Pass(n int) {
	j.Passed += n
	j.level += float64(n)
	j.Over = max(j.Over, j.level-j.Burst)
}

// peak returns the most arrivals per second within any period of length Within.
func (j *Meter) peak() float64 {
	width := int((j.Within + time.Millisecond - 1) / time.Millisecond)
	sum, most := 0, 0
	for i, n := range j.Arrivals {
		sum += n
		if i >= width {
			sum -= j.Arrivals[i-width]
		}
		most = max(most, sum)
	}
	return float64(most) / (float64(width) / 1000)
}

// Bound returns the over-admission that is allowed at any time.
func (j *Meter) Bound(nodes int) float64 {
	s := j.Within.Seconds()
	return min(float64(nodes-1)*(j.Burst+j.Rate*s), (j.peak()-j.Rate)*s)
}

// Poisson draws a number of arrivals from a Poisson distribution.
func Poisson(rng *rand.Rand, mean float64) int {
	n := 0
	for t := rng.ExpFloat64(); t < mean; t += rng.ExpFloat64() {
		n++
	}
	return n
}
