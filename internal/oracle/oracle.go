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
	limit headgate.Limit
	usage usage
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
func New(l headgate.Limit) *Oracle {
	o := &Oracle{limit: l}
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		o.usage = newBucket()
	case headgate.FixedWindow:
		o.usage = make(fixedWindow)
	case headgate.SlidingLog:
		o.usage = new(slidingLog)
	case headgate.SlidingWindow:
		o.usage = make(slidingWindow)
	case headgate.SlidingBuckets:
		o.usage = make(slidingBuckets)
	case headgate.Concurrency:
		o.usage = new(concurrency)
	}
	return o
}

// Change puts another limit in force. Only the capacity may differ, the algorithm among those with a bucket, and the TTL.
func (o *Oracle) Change(l headgate.Limit) { o.limit = l }

// Take decides n units at now, and takes them if they are allowed.
func (o *Oracle) Take(now, n int64, lease uint64) headgate.Decision {
	capacity := o.limit.Capacity()
	var d headgate.Decision
	switch {
	case n > capacity:
		d.RetryAfter = headgate.Never
	case o.fits(now, n):
		d.Allowed = true
	default:
		d.RetryAfter = o.until(now, capacity-n)
	}
	if d.Allowed && n > 0 {
		if o.limit.Algorithm == headgate.LeakyBucket {
			d.Delay = o.until(now, 0)
		}
		o.usage.add(o.limit, now, n, lease)
		d.Receipt = headgate.Receipt{At: now, Units: n}
		if o.limit.Algorithm == headgate.Concurrency {
			d.Receipt.Lease = lease
		}
	}
	o.describe(&d, now)
	return d
}

// Fits tells whether n units would be allowed at now.
func (o *Oracle) Fits(now, n int64) bool { return n <= o.limit.Capacity() && o.fits(now, n) }

func (o *Oracle) fits(now, n int64) bool {
	return o.usage.used(o.limit, now)+n <= o.limit.Capacity()
}

// Charge takes n units at now, or as many as the deepest debt leaves room for.
func (o *Oracle) Charge(now, n int64) headgate.Decision {
	deepest := o.limit.Capacity() * (1 + headgate.MaxDebt)
	n = max(0, min(n, deepest-o.usage.used(o.limit, now)))
	o.usage.add(o.limit, now, n, 0)
	d := headgate.Decision{Allowed: o.fits(now, 0), Receipt: headgate.Receipt{At: now, Units: n}}
	o.describe(&d, now)
	return d
}

// Give returns n units that were taken with r.
func (o *Oracle) Give(now, n int64, r headgate.Receipt) { o.usage.remove(o.limit, now, n, r) }

// describe fills in what is the same for all decisions.
func (o *Oracle) describe(d *headgate.Decision, now int64) {
	d.Limit = o.limit.Capacity()
	d.Remaining = d.Limit - o.usage.used(o.limit, now)
	d.ResetAfter = o.until(now, 0)
}

// until returns how long it takes from now until no more than room counts.
func (o *Oracle) until(now, room int64) time.Duration {
	return time.Duration(o.usage.first(o.limit, now, room)-now) * time.Microsecond
}

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
