package fleettest

import (
	"math/rand/v2"
	"time"
)

// A Meter counts admitted units, and measures over-admission. It adds all units to a bucket with unlimited debt. The
// over-admission is the highest debt.
type Meter struct {
	Burst, Rate float64 // per second
	level, Over float64
	Passed      int
	Last        time.Duration

	Within   time.Duration // the time over which the arrival rate λ is measured
	Arrivals []int         // per millisecond
}

// Advance drains the bucket until now.
func (m *Meter) Advance(now time.Duration) {
	m.level = max(0, m.level-m.Rate*(now-m.Last).Seconds())
	m.Last = now
}

// Pass counts n admitted units.
func (m *Meter) Pass(n int) {
	m.Passed += n
	m.level += float64(n)
	m.Over = max(m.Over, m.level-m.Burst)
}

// peak returns the highest arrival rate per second in any period of length Within.
func (m *Meter) peak() float64 {
	width := int((m.Within + time.Millisecond - 1) / time.Millisecond)
	sum, most := 0, 0
	for i, n := range m.Arrivals {
		sum += n
		if i >= width {
			sum -= m.Arrivals[i-width]
		}
		most = max(most, sum)
	}
	return float64(most) / (float64(width) / 1000)
}

// Bound returns the highest over-admission that is allowed.
func (m *Meter) Bound(nodes int) float64 {
	s := m.Within.Seconds()
	return min(float64(nodes-1)*(m.Burst+m.Rate*s), (m.peak()-m.Rate)*s)
}

// Poisson returns a random number with a Poisson distribution.
func Poisson(rng *rand.Rand, mean float64) int {
	n := 0
	for t := rng.ExpFloat64(); t < mean; t += rng.ExpFloat64() {
		n++
	}
	return n
}
