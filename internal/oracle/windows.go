package oracle

import (
	"math/big"

	"github.com/headgate/headgate"
)

// counts are the units consumed in each clock-aligned window, by its number.
type counts map[int64]int64

// subtract subtracts n units from a window, down to 0.
func (c counts) subtract(window, n int64) { c[window] = max(0, c[window]-n) }

func windowOf(l headgate.Limit, t int64) int64 { return floorDiv(t, l.Period.Microseconds()) }

// fixedWindow counts the units consumed in the window that contains t.
type fixedWindow counts

func (f fixedWindow) used(l headgate.Limit, t int64) int64 { return f[windowOf(l, t)] }

func (f fixedWindow) first(l headgate.Limit, now, maxUsed int64) int64 {
	if f[windowOf(l, now)] <= maxUsed {
		return now
	}
	return (windowOf(l, now) + 1) * l.Period.Microseconds()
}

func (f fixedWindow) add(l headgate.Limit, now, n int64, _ uint64) { f[windowOf(l, now)] += n }

func (f fixedWindow) remove(l headgate.Limit, _, n int64, r headgate.Receipt) {
	counts(f).subtract(windowOf(l, r.At), n)
}

// slidingWindow counts the units of the window that contains t, plus a share of the units of the window before. The
// share is the fraction of that window that lies within the last period. It is rounded to the nearest unit, and
// halves are rounded down.
type slidingWindow counts

func (s slidingWindow) used(l headgate.Limit, t int64) int64 {
	period, window := l.Period.Microseconds(), windowOf(l, t)
	current, previous := s[window], s[window-1]
	covered := (window+1)*period - t // part of the previous window within the last period, in µs
	if previous < (1<<62)/period {   // the product fits into an int64
		return current + nearest(previous*covered, period)
	}
	q, rest := new(big.Int).QuoRem(product(previous, covered), big.NewInt(period), new(big.Int))
	if rest.Int64() > period-rest.Int64() {
		q.Add(q, big.NewInt(1))
	}
	return current + q.Int64()
}

// nearest returns a/b rounded to the nearest integer; halves are rounded down.
func nearest(a, b int64) int64 {
	q, rest := a/b, a%b
	if rest > b-rest {
		q++
	}
	return q
}

// first finds the time by binary search: used never grows with time, and is 0 after two periods.
func (s slidingWindow) first(l headgate.Limit, now, maxUsed int64) int64 {
	before, after := now-1, now+2*l.Period.Microseconds()
	for after-before > 1 {
		if middle := before + (after-before)/2; s.used(l, middle) <= maxUsed {
			after = middle
		} else {
			before = middle
		}
	}
	return after
}

func (s slidingWindow) add(l headgate.Limit, now, n int64, _ uint64) { s[windowOf(l, now)] += n }

func (s slidingWindow) remove(l headgate.Limit, _, n int64, r headgate.Receipt) {
	counts(s).subtract(windowOf(l, r.At), n)
}

// slidingBuckets counts the units consumed in the bucket that contains t and in the N−1 buckets before it.
type slidingBuckets counts

// bucketsOf returns the number of buckets of a limit, and their width in µs.
func bucketsOf(l headgate.Limit) (n, width int64) {
	n = int64(l.Buckets)
	if n == 0 {
		n = headgate.DefaultBuckets
	}
	return n, l.Period.Microseconds() / n
}

func (s slidingBuckets) used(l headgate.Limit, t int64) int64 {
	n, width := bucketsOf(l)
	last := floorDiv(t, width)
	var sum int64
	for bucket, units := range s {
		if bucket > last-n && bucket <= last {
			sum += units
		}
	}
	return sum
}

// first tries the times at which a bucket expires.
func (s slidingBuckets) first(l headgate.Limit, now, maxUsed int64) int64 {
	if s.used(l, now) <= maxUsed {
		return now
	}
	n, width := bucketsOf(l)
	var first int64 = 1<<63 - 1
	for bucket := range s {
		if expiresAt := (bucket + n) * width; expiresAt > now && expiresAt < first && s.used(l, expiresAt) <= maxUsed {
			first = expiresAt
		}
	}
	return first
}

func (s slidingBuckets) add(l headgate.Limit, now, n int64, _ uint64) {
	_, width := bucketsOf(l)
	s[floorDiv(now, width)] += n
}

func (s slidingBuckets) remove(l headgate.Limit, _, n int64, r headgate.Receipt) {
	_, width := bucketsOf(l)
	counts(s).subtract(floorDiv(r.At, width), n)
}
