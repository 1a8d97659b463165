package pacer

import "math/bits"

// bucket is a schedule in which every permit costs the same time: perPermit/denominator nanoseconds. Idle time is saved
// up to a bound and pays for later permits.
type bucket struct {
	perPermit   uint64
	denominator uint64
	// maxSaved is the longest idle time that is saved.
	maxSaved span
	// prepaid means that a caller waits until its own permits are paid for. Otherwise it waits only until the permits of
	// earlier callers are paid for.
	prepaid bool
}

// newBucket returns the bucket of a valid rate, with a maxSaved of 0.
func newBucket(r Rate) bucket {
	permits, nanos := r.reduced()
	return bucket{perPermit: nanos, denominator: permits}
}

// timeFor returns the idle time that pays for n permits.
func (b *bucket) timeFor(n int64) span { return spanOf(n, b.perPermit, b.denominator) }

// permitsIn returns how many whole permits an idle time pays for.
func (b *bucket) permitsIn(s span) int64 {
	hi, lo := bits.Mul64(uint64(s.ns), b.denominator)
	lo, carry := bits.Add64(lo, s.frac, 0)
	n, _ := bits.Div64(hi+carry, lo, b.perPermit)
	return int64(n)
}

func (b *bucket) advance(s state, at int64) state {
	now := span{ns: at}
	if !s.free.less(now) {
		return s
	}
	s.saved = s.saved.plus(now.minus(s.free, b.denominator), b.denominator)
	if b.maxSaved.less(s.saved) {
		s.saved = b.maxSaved
	}
	s.free = now
	return s
}

// takeLate saves the unbooked time before at, like other idle time.
func (b *bucket) takeLate(s state, at, n int64, _ state) state {
	after, _ := b.take(s, at, n)
	return after
}

func (b *bucket) take(s state, at, n int64) (after state, passAt int64) {
	s = b.advance(s, at)
	before := s.free
	cost := b.timeFor(n)
	if s.saved.less(cost) {
		s.free = s.free.plus(cost.minus(s.saved, b.denominator), b.denominator)
		s.saved = span{}
	} else {
		s.saved = s.saved.minus(cost, b.denominator)
	}
	if b.prepaid {
		return s, max(at, s.free.ceil())
	}
	return s, max(at, before.ceil())
}
