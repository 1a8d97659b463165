package pacer

import (
	"math/bits"
	"time"
)

// warmUpSchedule is the schedule of a WarmingUp pacer. A permit takes the stable interval, and more while the pacer is
// cold.
//
// Saved time is idle time, from 0 (warm) to the whole warm-up period (cold), so a pacer cools down by as many
// nanoseconds as it idles. Let the cold factor be k = cold/scale, the warm-up period W and the stable interval s. Saved
// time pays for permits at W/max each, where max = W/2s + 2W/(s+ks). The price of a permit is s up to the threshold
// W/2s, and rises linearly from there to ks at max: the area of that trapezoid is W, the time from cold to warm.
//
// Everything is in integers. A nanosecond has den parts, and the price has two components: s for every permit, an exact
// fraction, and above that the triangle over the threshold, as the difference of its area before and after. So rounding
// the area moves the time of one caller by less than 2 ns and cancels out over a series: from cold to warm takes W to
// the nanosecond, in any number of steps.
type warmUpSchedule struct {
	bucket
	// coolPerPermit is the saved time of a stored permit, in parts: W/max.
	coolPerPermit uint64
	// permits is the number of permits of the rate in lowest terms.
	permits uint64
	warmUp  uint64
	scale   uint64
	cold    uint64
}

// newWarmUpSchedule returns the schedule of a valid rate, warm-up period and cold factor (in hundredths), and false if
// the numbers exceed 62 bits.
func newWarmUpSchedule(r Rate, warmUp time.Duration, hundredths uint64) (*warmUpSchedule, bool) {
	permits, nanos := r.reduced()
	d := gcd(hundredths, 100)
	w := &warmUpSchedule{permits: permits, warmUp: uint64(warmUp), cold: hundredths / d, scale: 100 / d}
	fits := true
	mul := func(a, b uint64) uint64 {
		hi, lo := bits.Mul64(a, b)
		fits = fits && hi == 0 && lo < 1<<62
		return lo
	}
	w.denominator = mul(permits, 5*w.scale+w.cold)
	w.perPermit = mul(nanos, 5*w.scale+w.cold)
	w.coolPerPermit = mul(nanos, 2*(w.scale+w.cold))
	mul(w.warmUp, 5*w.scale+w.cold)
	w.maxSaved = span{ns: int64(warmUp)}
	return w, fits
}

func (w *warmUpSchedule) take(s state, at, n int64) (after state, passAt int64) {
	s = w.advance(s, at)
	before := s.free
	surcharge := w.surcharge(s.saved)
	if stored := spanOf(n, w.coolPerPermit, w.denominator); stored.less(s.saved) {
		s.saved = s.saved.minus(stored, w.denominator)
	} else {
		s.saved = span{}
	}
	surcharge -= w.surcharge(s.saved)
	s.free = s.free.plus(w.timeFor(n), w.denominator).plus(span{ns: surcharge}, w.denominator)
	return s, max(at, before.ceil())
}

// takeLate does not let the pacer cool in the gap before at, and leaves it no colder than in the promised state, as
// if the callers that left had warmed it. Otherwise permits would cost more than before, and callers behind the
// reservation would pass later than promised.
func (w *warmUpSchedule) takeLate(s state, at, n int64, promised state) state {
	s.free = span{ns: max(at, s.free.ceil())}
	after, _ := w.take(s, at, n)
	if promised.free.less(after.free) {
		after.free = promised.free
	}
	if promised.saved.less(after.saved) {
		after.saved = promised.saved
	}
	return after
}

// surcharge returns the cost of the permits in saved above the stable price, in nanoseconds rounded down: the
// triangle's area up to there. It never decreases when saved grows.
func (w *warmUpSchedule) surcharge(saved span) int64 {
	// In units of 1/(5·scale+cold) of a nanosecond saved, the threshold is at W·(scale+cold) and the top 4·W·scale
	// above.
	above := uint64(saved.ns)*(5*w.scale+w.cold) + saved.frac/w.permits
	threshold := w.warmUp * (w.scale + w.cold)
	if above <= threshold {
		return 0
	}
	above -= threshold
	hi, lo := bits.Mul64(above, above)
	square, _ := bits.Div64(hi, lo, 4*w.warmUp*w.scale)
	hi, lo = bits.Mul64(square, w.cold-w.scale)
	area, _ := bits.Div64(hi, lo, 4*w.scale*(w.scale+w.cold))
	return int64(area)
}
