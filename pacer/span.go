package pacer

import "math/bits"

// farFuture is the end of all schedules: 2^61 ns, or 73 years, after a pacer was created. Permits for a later time are
// refused. Spans up to farFuture can be added without overflow.
const farFuture int64 = 1 << 61

// A span is an exact duration, or an exact instant since a pacer was created. It is ns + frac/den nanoseconds, where
// den is the denominator of the schedule and frac is less than den. So a rate of 300 per second, with a permit every
// 3333333⅓ ns, stays exact for years.
type span struct {
	ns   int64
	frac uint64
}

// spanOf returns count·num/den nanoseconds, or farFuture if that is less.
func spanOf(count int64, num, den uint64) span {
	hi, lo := bits.Mul64(uint64(count), num)
	if hi >= den {
		return span{ns: farFuture}
	}
	ns, frac := bits.Div64(hi, lo, den)
	if ns >= uint64(farFuture) {
		return span{ns: farFuture}
	}
	return span{ns: int64(ns), frac: frac}
}

// plus returns a + b, or farFuture if that is less.
func (a span) plus(b span, den uint64) span {
	a.ns += b.ns
	a.frac += b.frac
	if a.frac >= den {
		a.frac -= den
		a.ns++
	}
	if a.ns >= farFuture {
		return span{ns: farFuture}
	}
	return a
}

// minus returns a − b, which must not be negative.
func (a span) minus(b span, den uint64) span {
	a.ns -= b.ns
	if a.frac < b.frac {
		a.frac += den
		a.ns--
	}
	a.frac -= b.frac
	return a
}

func (a span) less(b span) bool {
	return a.ns < b.ns || a.ns == b.ns && a.frac < b.frac
}

// ceil returns the first whole nanosecond that is not before a.
func (a span) ceil() int64 {
	if a.frac > 0 {
		return a.ns + 1
	}
	return a.ns
}
