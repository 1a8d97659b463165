// Package oracle is a slow but obviously correct model of package algorithm. It keeps the history of a key, and
// computes every decision from the definition of the algorithm, with unbounded integers. Tests compare package
// algorithm with it.
package oracle

import (
	"time"

	"github.com/headgate/headgate"
)

// An Oracle decides for one key. Times are in microseconds and must not decrease.
type Oracle struct {
	key string
	// limit is the key's current limit. written is the limit under which the history in usage was written. The two differ
	// between a change of the limit and the next take or charge.
	limit, written headgate.Limit
	usage          usage
	held           usage // concurrency slots are not consumption, and are counted separately
	latest         int64 // time of the last take, charge or give, or of a later denial that counts as a decision
	denied         int64 // time of the last denial that a store with rounded times may have recorded
	maxRounding    int64 // see rounding

	// Rounding returns the largest number of microseconds by which a store rounds up the time of the latest decision
	// under a limit. Nil means exact times. If the result is not 0, a change of limit keeps the least consumption that
	// the store may keep, or the most if KeepMost is true.
	Rounding func(headgate.Limit) int64
	KeepMost bool
}

// usage is the history of a key as an algorithm counts it.
type usage interface {
	// used returns the units that count as consumed at t, which is not before anything in the history. A part of a
	// unit counts as a whole unit, because the rest of it cannot be taken.
	used(l headgate.Limit, t int64) int64
	// first returns the first time from now on at which at most maxUsed units count as consumed, if nothing is added.
	first(l headgate.Limit, now, maxUsed int64) int64
	// add records n units consumed at now.
	add(l headgate.Limit, now, n int64, lease uint64)
	// remove records that n units consumed with r are returned at now.
	remove(l headgate.Limit, now, n int64, r headgate.Receipt)
}

// New returns the oracle of a new key, under a valid limit.
func New(l headgate.Limit) *Oracle { return NewFor("", l) }

// NewFor is like New, for a key with a name. The name determines when staggered windows begin.
func NewFor(key string, l headgate.Limit) *Oracle {
	return &Oracle{key: key, limit: l, written: l, usage: newUsage(l), held: new(concurrency)}
}

func newUsage(l headgate.Limit) usage {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		return newBucket()
	case headgate.FixedWindow:
		return make(fixedWindow)
	case headgate.SlidingLog:
		return new(slidingLog)
	case headgate.SlidingWindow:
		return make(slidingWindow)
	case headgate.SlidingBuckets:
		return make(slidingBuckets)
	case headgate.Concurrency:
		return new(concurrency)
	default:
		return new(eventHistory)
	}
}

// Change changes the key's limit.
func (o *Oracle) Change(l headgate.Limit) { o.limit = l }

// Take decides n units at now, and takes them if they are allowed. A cost of 0, or one above the capacity, only reads.
func (o *Oracle) Take(now, n int64, lease uint64) headgate.Decision {
	capacity := o.limit.Capacity()
	u := o.currentUsage(now)
	if n > 0 && n <= capacity {
		u = o.convert(now)
	}
	var d headgate.Decision
	switch {
	case n > capacity:
		d.RetryAfter = headgate.Never
	case o.fits(u, now, n):
		d.Allowed = true
	default:
		d.RetryAfter = o.until(u, now, capacity-n)
		if n > 0 {
			o.recordDenial(u, now)
		}
	}
	if d.Allowed && n > 0 {
		if o.limit.Algorithm == headgate.LeakyBucket {
			d.Delay = o.until(u, now, 0)
		}
		d.Receipt = o.add(u, now, n, lease)
	}
	o.describe(&d, u, now)
	return d
}

// Force takes n units at now, whether or not they are allowed.
func (o *Oracle) Force(now, n int64) {
	o.add(o.convert(now), now, n, 0)
}

// Deny denies a take at now that the limit could allow at another time.
func (o *Oracle) Deny(now int64) { o.recordDenial(o.convert(now), now) }

// Fits reports whether n units would be allowed at now.
func (o *Oracle) Fits(now, n int64) bool {
	return n <= o.limit.Capacity() && o.fits(o.currentUsage(now), now, n)
}

func (o *Oracle) fits(u usage, now, n int64) bool {
	return u.used(o.limit, o.clock(o.limit, now))+n <= o.limit.Capacity()
}

// Charge takes n units at now, or as many as the largest debt allows.
func (o *Oracle) Charge(now, n int64) headgate.Decision {
	u := o.convert(now)
	n = max(0, min(n, maxConsumed(o.limit)-u.used(o.limit, o.clock(o.limit, now))))
	d := headgate.Decision{Receipt: o.add(u, now, n, 0)}
	d.Allowed = o.fits(u, now, 0)
	o.describe(&d, u, now)
	return d
}

// maxConsumed returns the capacity of a limit plus its largest debt.
func maxConsumed(l headgate.Limit) int64 { return l.Capacity() * (1 + headgate.MaxDebt) }

// Give returns n units that were taken with r under the limit l. They are returned under the limit in force, which may
// be another one. If both limits are buckets, and l drains faster, l has drained some of the units since they were
// taken. The units then count as taken as long ago as the limit in force takes to drain these, in whole microseconds.
func (o *Oracle) Give(now, n int64, l headgate.Limit, r headgate.Receipt) {
	if l.Algorithm == headgate.Concurrency {
		o.held.remove(l, now, n, r)
		return
	}
	taken := r.At + o.offset(l)
	r.At = o.clock(o.written, taken)
	if isBucket(l) && isBucket(o.written) && fasterThan(l, o.written) {
		drained := drains(l, max(0, now-taken))
		if drained.Cmp(parts(l, n)) >= 0 {
			o.latest = now
			return
		}
		r.At = now - timeToDrain(o.written, l, drained)
	}
	o.usage.remove(o.written, o.clock(o.written, now), n, r)
	o.latest = now
}

// add records n units taken at now and returns their receipt.
func (o *Oracle) add(u usage, now, n int64, lease uint64) headgate.Receipt {
	at := o.clock(o.limit, now)
	u.add(o.limit, at, n, lease)
	if o.limit.Algorithm == headgate.Concurrency {
		return headgate.Receipt{At: at, Units: n, Lease: lease}
	}
	o.latest, o.maxRounding = now, 0
	return headgate.Receipt{At: at, Units: n}
}

// describe sets the fields that all decisions have.
func (o *Oracle) describe(d *headgate.Decision, u usage, now int64) {
	d.Limit = o.limit.Capacity()
	d.Remaining = d.Limit - u.used(o.limit, o.clock(o.limit, now))
	d.ResetAfter = o.until(u, now, 0)
}

// until returns the time from now until at most maxUsed units count.
func (o *Oracle) until(u usage, now, maxUsed int64) time.Duration {
	at := o.clock(o.limit, now)
	first := u.first(o.limit, at, maxUsed)
	return time.Duration(min(first-at, maxMicros)) * time.Microsecond
}

// maxMicros is the longest time in a decision, in µs.
const maxMicros = 1 << 53

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
