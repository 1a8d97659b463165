package pacer

import (
	"math/bits"
	"time"
)

// warmUpSchedule is the schedule of a WarmingUp pacer. A permit costs the interval of the rate, and more while the
// pacer is cold.
//
// state.saved is idle time, from 0 (warm) to the whole warm-up period (cold), so a pacer cools down by as many
// nanoseconds as it is idle. Let s be the interval of the rate, W the warm-up period and k = cold/scale the cold
// factor. A cold pacer stores max = W/2s + 2W/(s+ks) permits, so each stored permit stands for W/max of saved time. The
// price of a permit is s while at most W/2s permits are stored, the threshold, and rises linearly from there to ks at
// max. The price over the stored permits forms a rectangle and a triangle above the threshold. Their areas from the
// threshold to max add up to W, which is the time from cold to warm.
//
// All computations are in integers. A nanosecond has denominator parts. The price of permits has two components: s for
// each of them, which is an exact fraction, and a surcharge, which is the difference of the triangle's area before and
// after. Rounding the area moves the time of one caller by less than 2 ns. It cancels out over several callers, so the
// time from cold to warm is W to the nanosecond.
type warmUpSchedule struct {
	bucket
	// savedPerPermit is the saved time for which a stored permit stands, in parts: W/max.
	savedPerPermit uint64
	// permits is the number of permits of the rate in lowest terms.
	permits uint64
	warmUp  uint64 // W
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
	w.savedPerPermit = mul(nanos, 2*(w.scale+w.cold))
	mul(w.warmUp, 5*w.scale+w.cold) // the largest product in surcharge
	w.maxSaved = span{ns: int64(warmUp)}
	return w, fits
}

func (w *warmUpSchedule) take(s state, at, n int64) (after state, passAt int64) {
	s = w.advance(s, at)
	before := s.free
	surcharge := w.surcharge(s.saved)
	if stored := spanOf(n, w.savedPerPermit, w.denominator); stored.less(s.saved) {
		s.saved = s.saved.minus(stored, w.denominator)
	} else {
		s.saved = span{}
	}
	surcharge -= w.surcharge(s.saved)
	s.free = s.free.plus(w.timeFor(n), w.denominator).plus(span{ns: surcharge}, w.denominator)
	return s, max(at, before.ceil())
}

// takeLate does not let the pacer cool in the gap before at, and leaves it no colder than in the promised state, as if
// the callers that left had taken their permits. Otherwise later permits would cost more, and callers behind the
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

// surcharge returns how many nanoseconds the stored permits cost in addition to the interval of the rate, rounded down:
// the area of the triangle up to saved. It never decreases when saved grows.
func (w *warmUpSchedule) surcharge(saved span) int64 {
	// In units of 1/(5·scale+cold) of a saved nanosecond, the threshold is at W·(scale+cold), and the whole warm-up period
	// ends 4·W·scale above the threshold.
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
