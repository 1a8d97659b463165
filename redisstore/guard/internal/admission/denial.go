package admission

import (
	"math"
	"time"

	"github.com/headgate/headgate"
)

// A Denial says which costs the store would deny for a key, and until when. It is derived from a response of the store,
// and is immutable. Its times are counted from the call. The store decided later than that, so nothing is denied for
// longer than the store said.
type Denial struct {
	denialID
	calledAt int64 // when the store was called
	duration int64 // how long the call took; the store decided within this time
	until    int64 // when the denial expires
	kind     denialKind

	remaining int64 // units that remained after the decision
	reset     int64 // when the key has its full capacity again
	unitTime  int64 // for draining: the time in which one unit is restored, in µs
	costs     []costDenial
}

// A denialID says which checks a Denial is about.
type denialID struct {
	hash       uint64 // of the key
	key, owner string
	limit      headgate.Limit
	split      int
}

// A denialKind says for which costs a Denial holds.
type denialKind uint8

const (
	perCost  denialKind = iota // only those in costs
	window                     // all costs: no unit is restored until the window ends, at reset
	draining                   // all costs: a unit is restored every unitTime until reset
)

// A costDenial is the denial of one cost.
type costDenial struct {
	cost      int64 // costs above the capacity are all capacity + 1
	until     int64
	retry     int64 // when the cost would pass, or forever
	remaining int64
	reset     int64
}

const (
	maxCosts = 8
	forever  = math.MaxInt64
	// Callers wait for the end of an uncertainty only if a unit is restored in at least minUnitShare times the duration of
	// the call. If units are restored faster, waiting would cost throughput.
	minUnitShare = 8
	// A denial whose RetryAfter is an estimate is remembered for only 1/estimateShare of the usual time.
	estimateShare = 100
)

// Micros returns a duration of some µs.
func Micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// Matches reports whether the denial is about the key and limit of a check.
func (e *Denial) Matches(hash uint64, c *headgate.Check) bool {
	return e.hash == hash && e.key == c.Key && e.owner == c.Owner && e.limit == c.Limit && e.split == c.Split
}

// Decide returns the decision about a cost at a time, if the denial covers both.
func (e *Denial) Decide(cost, now int64) (headgate.Decision, bool) {
	if now < e.calledAt || now >= e.until {
		return headgate.Decision{}, false
	}
	d := headgate.Decision{Limit: e.limit.Capacity()}
	if e.kind == perCost {
		cost = min(cost, d.Limit+1)
		for i := range e.costs {
			if s := &e.costs[i]; s.cost == cost && now < s.until {
				d.Remaining = s.remaining
				d.ResetAfter = Micros(max(0, s.reset-now))
				d.RetryAfter = headgate.Never
				if s.retry != forever {
					d.RetryAfter = Micros(s.retry - now)
				}
				return d, true
			}
		}
		return headgate.Decision{}, false
	}
	remaining := max(0, e.reset-now)
	d.Remaining = e.remaining
	if e.kind == draining {
		d.Remaining = d.Limit - ceilDiv(remaining, e.unitTime)
	}
	if cost <= d.Remaining {
		return headgate.Decision{}, false
	}
	d.ResetAfter = Micros(remaining)
	switch {
	case cost > d.Limit:
		d.RetryAfter = headgate.Never
	case e.kind == draining:
		d.RetryAfter = Micros(remaining - (d.Limit-cost)*e.unitTime)
	default:
		d.RetryAfter = Micros(remaining)
	}
	return d, true
}

// uncertainty returns for how many µs from now it is not known whether a cost passes. The denial assumes that the store
// decided at the beginning of the call. If the store decided at its end, it denies the cost for that much longer.
// uncertainty returns 0 if units are restored so quickly that waiting would cost throughput.
func (e *Denial) uncertainty(cost, now int64) int64 {
	if e.duration*minUnitShare > e.limit.Period.Microseconds()/e.limit.Count {
		return 0
	}
	d, ok := e.Decide(cost, now-e.duration)
	if ok && d.RetryAfter != headgate.Never && d.RetryAfter <= Micros(e.duration) {
		return d.RetryAfter.Microseconds()
	}
	return 0
}

// DecideForWaiter returns the decision about a cost for a caller that was waiting when the store was called. Such a
// caller gets the decision even if the denial has expired since.
func (e *Denial) DecideForWaiter(cost, now int64) (headgate.Decision, bool) {
	d, ok := e.Decide(cost, e.calledAt)
	if !ok {
		return d, false
	}
	since := Micros(max(0, now-e.calledAt))
	if d.RetryAfter != headgate.Never {
		d.RetryAfter = max(time.Microsecond, d.RetryAfter-since)
	}
	d.ResetAfter = max(0, d.ResetAfter-since)
	return d, true
}

// newDenial returns the denial that follows from a decision about a check, valid for at most hold µs. It returns nil if
// nothing is denied. old is the previous denial for the check's key and limit, or nil.
func newDenial(hash uint64, c *headgate.Check, calledAt, hold int64, d *headgate.Decision, old *Denial) *Denial {
	if d.Limit != c.Limit.Capacity() {
		return nil
	}
	e := &Denial{
		denialID: denialID{hash: hash, key: c.Key, owner: c.Owner, limit: c.Limit, split: c.Split},
		calledAt: calledAt, until: calledAt + hold,
		remaining: d.Remaining, reset: calledAt + d.ResetAfter.Microseconds(),
	}
	if isEstimate(c) {
		hold = max(1, hold/estimateShare)
	} else if e.coverAllCosts(c, d) {
		return e
	}
	if d.Allowed {
		return nil
	}
	e.coverCost(c, d, hold, old)
	return e
}

// isEstimate reports whether the RetryAfter of a check's denial is an estimate.
func isEstimate(c *headgate.Check) bool {
	return c.Limit.Algorithm == headgate.Concurrency || c.Split > 1
}

// coverAllCosts makes the denial hold for every cost. It returns false if the decision does not say enough for that.
func (e *Denial) coverAllCosts(c *headgate.Check, d *headgate.Decision) bool {
	reset, retry := d.ResetAfter.Microseconds(), d.RetryAfter.Microseconds()
	never := d.RetryAfter == headgate.Never
	switch c.Limit.Algorithm {
	case headgate.FixedWindow:
		e.kind = window
		if (reset == 0) != (d.Remaining == d.Limit) || !d.Allowed && !never && retry != reset {
			return false
		}
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		period := c.Limit.Period.Microseconds()
		if period%c.Limit.Count != 0 {
			return false // a unit is not restored in whole microseconds
		}
		e.kind, e.unitTime = draining, period/c.Limit.Count
		// The figures of a decision may not fit together, for example if the key's clock is ahead of ours.
		if d.Remaining != d.Limit-ceilDiv(reset, e.unitTime) ||
			!d.Allowed && !never && retry != reset-(d.Limit-c.Cost)*e.unitTime {
			return false
		}
	default:
		return false
	}
	if reset > 0 {
		e.until = min(e.until, e.reset)
	}
	return true
}

// coverCost makes the denial hold for one cost, and for the costs of the previous denial that are still denied.
func (e *Denial) coverCost(c *headgate.Check, d *headgate.Decision, hold int64, old *Denial) {
	s := costDenial{
		cost: min(c.Cost, d.Limit+1), until: e.calledAt + hold, retry: forever,
		remaining: d.Remaining, reset: e.reset,
	}
	if d.RetryAfter != headgate.Never {
		s.retry = e.calledAt + d.RetryAfter.Microseconds()
		s.until = min(s.until, s.retry)
	}
	e.kind, e.until = perCost, s.until
	e.costs = append(e.costs, s)
	if old == nil || old.kind != perCost {
		return
	}
	for _, s := range old.costs {
		if s.cost != e.costs[0].cost && s.until > e.calledAt && old.calledAt <= e.calledAt && len(e.costs) < maxCosts {
			e.costs = append(e.costs, s)
			e.until = max(e.until, s.until)
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
