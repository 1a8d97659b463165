package algorithm

import (
	"math/bits"

	"github.com/headgate/headgate"
)

// The states of token-bucket, gcra and leaky-bucket are buckets. A bucket fills when units are taken and drains at the
// rate of the limit. It is a Pair whose Time is called the anchor: at that time the bucket held Units, and at a later
// time t it holds exactly Units − rate·(t − Time). To stay exact, the anchor moves only by times in which whole units
// drain. The anchor of an empty bucket moves to the current time. Last is the time of the latest take, charge or
// refund, or of a later denial that denyBucket records.

// slide moves the anchor of b forward by whole periods of the rate, until it is less than one period before now.
// Exactly r.units drain in a period of r.micros. The anchor of an empty bucket moves to now. An anchor after now does
// not move. Last does not change. drained is how many whole units have drained since the new anchor; moved.Units
// includes them.
func (b Pair) slide(r rate, now int64) (moved Pair, drained int64) {
	if b.Units == 0 {
		b.Time = max(now, b.Last)
		return b, 0
	}
	elapsed := now - b.Time
	if elapsed <= 0 {
		return b, 0
	}
	if elapsed >= r.micros {
		periods := elapsed / r.micros
		hi, drainedUnits := bits.Mul64(uint64(periods), uint64(r.units))
		if hi != 0 || drainedUnits >= uint64(b.Units) {
			return Pair{Time: now, Last: b.Last}, 0
		}
		b.Units -= int64(drainedUnits)
		b.Time += periods * r.micros
		elapsed -= periods * r.micros
	}
	if r.units > 1 && elapsed > 0 { // at a rate of one unit per period, nothing drains within a period
		if drained = r.unitsIn(elapsed, b.Units); drained >= b.Units {
			return Pair{Time: now, Last: b.Last}, 0
		}
	}
	return b, drained
}

// denyBucket returns b after a denied take at now. moved and drained are the results of slide. It sets Last to now if
// the key is in debt, or if fewer units count now than at Last. This matters if the limit changes afterwards: the new
// rate must not apply to the time before the denial. Other denials change nothing, so a store need not write them. The
// anchor does not move, so that a denial rounds nothing, and adds no capacity if the clock goes back afterwards.
func (p *Plan) denyBucket(b, moved Pair, drained, now int64) Pair {
	if now <= b.Last {
		return b
	}
	level := moved.Units - drained
	if level > p.capacity || b.Units > level && b.Units-p.rate.unitsIn(b.Last-b.Time, b.Units) > level {
		b.Last = now
		return b
	}
	return moved
}

// drainsNothing reports whether certainly no unit drains in the elapsed time. It needs no division. For most decisions
// on a busy key it returns true.
func (p *Plan) drainsNothing(elapsed int64) bool {
	return elapsed <= 0 || elapsed < p.rate.micros && p.rate.units == 1
}

func (p *Plan) decideBucket(b Pair, now, n int64) headgate.Decision {
	if n > p.capacity {
		return p.denyForever(p.decideBucket(b, now, 0))
	}
	moved, drained := b.slide(p.rate, now)
	var d headgate.Decision
	p.describeBucket(&d, moved, drained, now, n, moved.Units+n-drained <= p.capacity)
	return d
}

// describeTakenFromBucket fills in the decision of a take: b is the bucket after n units were taken from it at now.
func (p *Plan) describeTakenFromBucket(d *headgate.Decision, b Pair, now, n int64) {
	b.Units -= n
	var drained int64
	if p.rate.units > 1 && now > b.Time {
		drained = p.rate.unitsIn(now-b.Time, b.Units)
	}
	p.describeBucket(d, b, drained, now, n, true)
}

// describeBucket fills in the decision about n units and a bucket that slide has moved to now. drained is the result of
// slide.
func (p *Plan) describeBucket(d *headgate.Decision, b Pair, drained, now, n int64, allowed bool) {
	d.Allowed = allowed
	d.Limit = p.capacity
	level := b.Units
	if allowed {
		level += n
		if n > 0 {
			d.Receipt = headgate.Receipt{At: max(now, b.Time), Units: n}
		}
		if p.limit.Algorithm == headgate.LeakyBucket && n > 0 {
			d.Delay = p.delay(b, now)
		}
	} else {
		d.RetryAfter = micros(b.Time + p.rate.timeFor(b.Units+n-p.capacity) - now)
	}
	d.Remaining = p.capacity - (level - drained)
	if level > 0 {
		d.ResetAfter = micros(b.Time + p.rate.timeFor(level) - now)
	}
}

// giveBucket gives back n units that were taken at the time at, except those that have drained since. The drained part
// is usually not a whole number of units. giveBucket subtracts from n the units that drained in whole periods of the
// rate, and accounts for the rest of the time by moving the anchor. If now is before b.Last, units that had drained by
// b.Last are not given back either.
//
// takenUnder is the plan under which the units were taken. If its rate is faster than that of p, giveBucket assumes
// that the units drained at the faster rate all the time, because it does not know when the limit changed.
func (p *Plan) giveBucket(b Pair, takenUnder *Plan, now, n, at int64) Pair {
	b, _ = b.slide(p.rate, now)
	now = max(now, b.Time)
	b.Last = max(now, b.Last)
	age := max(0, b.Last-at)
	if p.rate.unitsIn(age, n) >= n {
		return b // all of them have drained
	}
	drained, rest := age/p.rate.micros*p.rate.units, age%p.rate.micros // units, µs
	if takenUnder.kind == KindBucket && takenUnder.rate != p.rate {
		if takenUnder.rate.unitsIn(age, n) >= n {
			return b
		}
		units, micros := p.rate.timeToDrain(takenUnder.rate, age)
		if units > drained || units == drained && micros > rest { // takenUnder drains faster
			drained, rest = units, micros
			if drained+p.rate.unitsIn(rest, n) >= n {
				return b
			}
		}
	}
	b.Units -= n - drained
	b.Time += rest
	if b.Time > b.Last { // move the anchor back by a whole period and add its units: the level stays the same
		b.Time -= p.rate.micros
		b.Units += p.rate.units
	}
	if b.Units <= 0 || p.rate.unitsIn(max(0, now-b.Time), b.Units) >= b.Units {
		return Pair{Time: now, Last: b.Last}
	}
	return b
}

// chargeBucket takes n units even beyond the capacity, or fewer if the debt would exceed its maximum.
func (p *Plan) chargeBucket(b Pair, now, n int64) (Pair, headgate.Decision) {
	b, drained := b.slide(p.rate, now)
	n = min(n, max(0, p.maxConsumed-(b.Units-drained)))
	b.Units += n
	b.Last = max(now, b.Last)
	d := p.decideBucket(b, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: max(now, b.Time), Units: n}
	return b, d
}

// bucketSteps implements the parts of the interface steps that token-bucket, gcra and leaky-bucket share.
type bucketSteps struct{ pairSteps }

func (bucketSteps) kind() Kind { return KindBucket }

func (bucketSteps) words(*Plan) (initial, growth int) { return bucketWords, 0 }

// prepare is never called for buckets: their plans need only the rate, which Plan.Set computes.
func (bucketSteps) prepare(*Plan) {}

// restore sets the rate. Its units are the number in the head of the state, which the caller has stored in p.period.
func (bucketSteps) restore(p *Plan, s State) { p.rate = rate{units: p.period, micros: s[bucketPeriod]} }

func (bucketSteps) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) {
	return p.rate.units, p.rate.micros
}
