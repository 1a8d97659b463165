package algorithm

import "math/bits"

// A rate is an exact fraction: units per micros, in lowest terms.
type rate struct {
	units, micros int64
}

func newRate(count, periodMicros int64) rate {
	divisor := int64(gcd(uint64(count), uint64(periodMicros)))
	return rate{units: count / divisor, micros: periodMicros / divisor}
}

// gcd returns the greatest common divisor of two positive numbers. It does not divide, because it runs for every
// decision whose limit is not cached and must be fast.
func gcd(a, b uint64) uint64 {
	twos := bits.TrailingZeros64(a | b)
	a >>= bits.TrailingZeros64(a)
	for b != 0 {
		b >>= bits.TrailingZeros64(b)
		if a > b {
			a, b = b, a
		}
		b -= a
	}
	return a << twos
}

// timeToDrain returns the time in which r drains as much as another rate does in t microseconds, rounded up. It returns
// the time as whole periods of r and a rest: units is how many units drain in these periods, and micros is the rest.
// The drained units must fit in an int64.
func (r rate) timeToDrain(other rate, t int64) (units, micros int64) {
	// The other rate drains whole + part/other.micros units in t. r needs micros/units for each of them. Whole periods of
	// r are computed apart from the rest, so that all products fit in 128 bits.
	hi, lo := bits.Mul64(uint64(t), uint64(other.units))
	whole, part := bits.Div64(hi, lo, uint64(other.micros))
	periods, remainder := whole/uint64(r.units), whole%uint64(r.units)
	hi, lo = bits.Mul64(remainder, uint64(r.micros))
	lo, carry := bits.Add64(lo, uint64(mulDivCeil(int64(part), r.micros, other.micros, r.micros)), 0)
	hi += carry
	lo, carry = bits.Add64(lo, uint64(r.units)-1, 0)
	rest, _ := bits.Div64(hi+carry, lo, uint64(r.units))
	if rest >= uint64(r.micros) {
		return int64((periods + 1) * uint64(r.units)), 0
	}
	return int64(periods * uint64(r.units)), int64(rest)
}

// unitsIn returns how many whole units drain in t microseconds, at most maximum.
func (r rate) unitsIn(t, maximum int64) int64 {
	return mulDivFloor(t, r.units, r.micros, maximum)
}

// timeFor returns the microseconds in which n units drain, rounded up.
func (r rate) timeFor(n int64) int64 {
	return mulDivCeil(n, r.micros, r.units, forever)
}

// forever, in µs, is longer than any time that a valid limit needs, and short enough to be added to a time and
// converted to nanoseconds.
const forever = 1 << 53

// mulDivFloor returns min(a·b/c rounded down, maximum). All are ≥ 0, and c > 0.
func mulDivFloor(a, b, c, maximum int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return divFloor(hi, lo, c, maximum)
}

// mulDivCeil returns min(a·b/c rounded up, maximum). All are ≥ 0, and c > 0.
func mulDivCeil(a, b, c, maximum int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c)-1, 0)
	return divFloor(hi+carry, lo, c, maximum)
}

// divFloor returns the 128-bit number hi·2^64 + lo divided by c and rounded down, at most maximum.
func divFloor(hi, lo uint64, c, maximum int64) int64 {
	if hi == 0 {
		return int64(min(lo/uint64(c), uint64(maximum)))
	}
	if hi >= uint64(c) {
		return maximum
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, uint64(maximum)))
}

// mulDivNear returns a·b/c rounded to the nearest whole number, and a half rounded down. All are ≥ 0, and b ≤
// c.
func mulDivNear(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, rest := bits.Div64(hi, lo, uint64(c))
	if 2*rest > uint64(c) {
		q++
	}
	return int64(q)
}
