// Package oracle decides like package algorithm, slowly and so that one can see that it is right: it keeps the history of
// a key and works out every answer from the definition of the algorithm, in whole numbers without bounds. Tests hold the
// steps against it.
package oracle

import (
	"time"

	"github.com/headgate/headgate"
)

// An Oracle decides for one key. Times are in microseconds and must not go back.
type Oracle struct {
	key string
	// limit is the one that the key is asked by. written is the one under which the history in usage was written: the two
	// differ from a change of the limit until the first take or charge after it.
	limit, written headgate.Limit
	usage          usage
	held           usage // places in flight are no consumption, and are counted apart
	latest         int64 // when something was last taken, charged or given back

	// Blur returns by how many microseconds later than it was a store may believe the latest decision under a limit to have
	// been, nil for exactly. If it is not 0, a change of limit adds as much to the time, and a unit to what was consumed.
	Blur func(headgate.Limit) int64
}

// usage is what an algorithm says of a history.
type usage interface {
	// used returns what counts as consumed at t, which is not before anything in the history. A part of a unit counts
	// whole, for it cannot be taken.
	used(l headgate.Limit, t int64) int64
	// first returns the first time from now on at which no more than room counts as consumed, if nothing is added.
	first(l headgate.Limit, now, room int64) int64
	// add notes n units consumed at now.
	add(l headgate.Limit, now, n int64, lease uint64)
	// remove notes that n units that were consumed with r are given back at now.
	remove(l headgate.Limit, now, n int64, r headgate.Receipt)
}

// New returns the oracle of a key never seen, under a valid limit.
func New(l headgate.Limit) *Oracle { return NewFor("", l) }

// NewFor is New for a key that has a name, from which staggered windows take their beginning.
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
	default:
		return new(concurrency)
	}
}

// Change has the key asked by another limit.
func (o *Oracle) Change(l headgate.Limit) { o.limit = l }

// Take decides n units at now, and takes them if they are allowed. A cost of 0, or one that can never pass, only looks.
func (o *Oracle) Take(now, n int64, lease uint64) headgate.Decision {
	capacity := o.limit.Capacity()
	u := o.view(now)
	if n > 0 && n <= capacity {
		u = o.settle(now)
	}
	var d headgate.Decision
	switch {
	case n > capacity:
		d.RetryAfter = headgate.Never
	case o.fits(u, now, n):
		d.Allowed = true
	default:
		d.RetryAfter = o.until(u, now, capacity-n)
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
	o.add(o.settle(now), now, n, 0)
}

// Settle puts the limit in force that the key is asked by, as a take that is denied does.
func (o *Oracle) Settle(now int64) { o.settle(now) }

// Fits tells whether n units would be allowed at now.
func (o *Oracle) Fits(now, n int64) bool {
	return n <= o.limit.Capacity() && o.fits(o.view(now), now, n)
}

func (o *Oracle) fits(u usage, now, n int64) bool {
	return u.used(o.limit, o.clock(o.limit, now))+n <= o.limit.Capacity()
}

// Charge takes n units at now, or as many as the deepest debt leaves room for.
func (o *Oracle) Charge(now, n int64) headgate.Decision {
	u := o.settle(now)
	n = max(0, min(n, deepest(o.limit)-u.used(o.limit, o.clock(o.limit, now))))
	d := headgate.Decision{Receipt: o.add(u, now, n, 0)}
	d.Allowed = o.fits(u, now, 0)
	o.describe(&d, u, now)
	return d
}

func deepest(l headgate.Limit) int64 { return l.Capacity() * (1 + headgate.MaxDebt) }

// Give returns n units that were taken with r under the limit l, which need not be in force any more: they come back by the
// limit that is.
func (o *Oracle) Give(now, n int64, l headgate.Limit, r headgate.Receipt) {
	if l.Algorithm == headgate.Concurrency {
		o.held.remove(l, now, n, r)
		return
	}
	taken := r.At + o.offset(l)
	r.At = o.clock(o.written, taken)
	o.usage.remove(o.written, o.clock(o.written, now), n, r)
	o.latest = now
}

// add notes n units taken at now and returns the receipt for them.
func (o *Oracle) add(u usage, now, n int64, lease uint64) headgate.Receipt {
	at := o.clock(o.limit, now)
	u.add(o.limit, at, n, lease)
	if o.limit.Algorithm == headgate.Concurrency {
		return headgate.Receipt{At: at, Units: n, Lease: lease}
	}
	o.latest = now
	return headgate.Receipt{At: at, Units: n}
}

// describe fills in what is the same for all decisions.
func (o *Oracle) describe(d *headgate.Decision, u usage, now int64) {
	d.Limit = o.limit.Capacity()
	d.Remaining = d.Limit - u.used(o.limit, o.clock(o.limit, now))
	d.ResetAfter = o.until(u, now, 0)
}

// until returns how long it takes from now until no more than room counts.
func (o *Oracle) until(u usage, now, room int64) time.Duration {
	at := o.clock(o.limit, now)
	first := u.first(o.limit, at, room)
	return time.Duration(min(first-at, longest)) * time.Microsecond
}

// longest is the longest time in µs that a decision speaks of.
const longest = 1 << 53

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
