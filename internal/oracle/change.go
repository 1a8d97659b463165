package oracle

import (
	"hash/fnv"

	"github.com/headgate/headgate"
)

// The rule for a limit that changes (docs/algorithms.md, "Changing a limit"): the units that were consumed at the
// latest decision under the old limit count as taken at that time. A part of a unit counts as a whole unit. If all of
// them have expired under the old limit at the first decision under the new one, nothing counts as consumed.
//
// Under a bucket, a denied take is a decision, too, if the key is in debt or if fewer units count than at the decision
// before.
//
// No conversion is needed if both limits count in the same way: buckets of the same rate, windows with the same
// borders, and logs, whose entries have their own times.

// currentUsage returns the consumption as the current limit counts it.
func (o *Oracle) currentUsage(now int64) usage {
	u, _ := o.usageAndLatest(now)
	return u
}

// usageAndLatest returns the consumption as the current limit counts it, and the time of the latest decision. It changes
// o.usage only if the limit counts like the old one.
func (o *Oracle) usageAndLatest(now int64) (usage, int64) {
	if o.limit.Algorithm == headgate.Concurrency {
		return o.held, o.latest
	}
	if countAlike(o.written, o.limit) {
		if b, ok := o.usage.(*bucket); ok {
			b.rescale(o.written, o.limit)
			o.rounding()
			o.written = o.limit
		}
		return o.usage, o.latest
	}
	if o.usage.used(o.written, o.clock(o.written, max(now, o.latest))) == 0 {
		return newUsage(o.limit), o.latest
	}
	latest := o.clock(o.written, o.latest)
	if log, ok := o.usage.(*slidingLog); ok && o.limit.Algorithm == headgate.SlidingLog {
		return log.since(latest - o.written.Period.Microseconds()), o.latest
	}
	units, at := o.usage.used(o.written, latest), o.latest
	if rounding := o.rounding(); rounding > 0 || o.denied > at {
		last := min(max(at, o.denied)+rounding, max(at, now)) // the latest time that the store may have stored
		if o.KeepMost {
			at = last
		} else {
			units = o.usage.used(o.written, o.clock(o.written, last))
		}
	}
	if o.limit.Algorithm == headgate.SlidingLog {
		units = min(units, maxConsumed(o.limit)) // all of them expire at once
	}
	u := newUsage(o.limit)
	u.add(o.limit, o.clock(o.limit, at), units, 0)
	return u, at
}

// convert converts the stored consumption to the current limit, and returns it.
func (o *Oracle) convert(now int64) usage {
	u, latest := o.usageAndLatest(now)
	if o.limit.Algorithm != headgate.Concurrency {
		if !countAlike(o.written, o.limit) {
			o.denied, o.maxRounding = 0, 0
		}
		o.usage, o.written, o.latest = u, o.limit, latest
	}
	return u
}

// rounding returns the largest number of microseconds by which the store may have rounded up the time of the latest
// decision. Limits that count alike may be rounded differently; a store that has not converted the state yet has the
// time as rounded under an earlier limit.
func (o *Oracle) rounding() int64 {
	if o.Rounding != nil {
		o.maxRounding = max(o.maxRounding, o.Rounding(o.written))
	}
	return o.maxRounding
}

// recordDenial records that a take was denied at now. u is the consumption.
func (o *Oracle) recordDenial(u usage, now int64) {
	if !isBucket(o.limit) {
		return
	}
	switch used := u.used(o.limit, now); {
	case used > o.limit.Capacity():
		o.latest, o.maxRounding = now, 0
	case o.rounding() > 0:
		o.denied = now // if the store's time of the latest decision is late, as many units may count then as now
	case used < u.used(o.limit, o.latest):
		o.latest = now
	}
}

// countAlike reports whether two limits, neither of concurrency, count consumption in the same way.
func countAlike(a, b headgate.Limit) bool {
	switch {
	case isBucket(a) && isBucket(b):
		return product(a.Count, b.Period.Microseconds()).Cmp(product(b.Count, a.Period.Microseconds())) == 0
	case a.Algorithm != b.Algorithm || a.Period != b.Period:
		return false
	case a.Algorithm == headgate.SlidingBuckets:
		n, _ := bucketsOf(a)
		m, _ := bucketsOf(b)
		return n == m
	default:
		return a.Staggered == b.Staggered
	}
}

// fasterThan reports whether the rate of a is above that of b.
func fasterThan(a, b headgate.Limit) bool {
	return product(a.Count, b.Period.Microseconds()).Cmp(product(b.Count, a.Period.Microseconds())) > 0
}

func isBucket(l headgate.Limit) bool {
	return l.Algorithm == headgate.TokenBucket || l.Algorithm == headgate.GCRA || l.Algorithm == headgate.LeakyBucket
}

// clock converts a time so that the windows of a limit begin at multiples of its period.
func (o *Oracle) clock(l headgate.Limit, t int64) int64 { return t - o.offset(l) }

// offset returns the time from a multiple of the period to the start of the key's next window.
func (o *Oracle) offset(l headgate.Limit) int64 {
	if !l.Staggered {
		return 0
	}
	hash := fnv.New64a()
	hash.Write([]byte(o.key))
	sum := hash.Sum64()
	return int64((sum ^ sum>>32) % uint64(l.Period.Microseconds()))
}
