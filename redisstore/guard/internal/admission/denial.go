package admission

import (
	"math"
	"time"

	"github.com/headgate/headgate"
)

// A Denial is what a response of the store says about a key: enough to decide for a while as the store would. It is
// immutable. Times count from the call, which is before the store decided, so nothing is denied for longer than the
// store said.
type Denial struct {
	denialID
	calledAt int64 // when the store was called
	duration int64 // of the call, in which the store decided
	until    int64 // when the denial expires
	kind     denialKind

	remaining int64
	reset     int64 // when the key has its full capacity again
	unitTime  int64 // µs in which one unit comes back, for draining
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
	perCost  denialKind = iota // the costs in costs only
	window                     // all: the remaining units stay until the window ends, at reset
	draining                   // all: a unit comes back every unitTime until reset
)

// A costDenial is the denial of one cost.
type costDenial struct {
	cost      int64 // costs above the capacity are all capacity + 1
	until     int64
	retry     int64 // when it would pass, or forever
	remaining int64
	reset     int64
}

const (
	maxCosts = 8
	forever  = math.MaxInt64
	// minUnitShare is how many times longer than the call a unit must take to come back. Otherwise callers do not wait for
	// the end of an uncertainty.
	minUnitShare = 8
	// estimateShare is how many times shorter a denial is remembered whose RetryAfter is an estimate.
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

// uncertainty returns for how long it is not known whether a cost passes: if the store decided at the end of the call
// rather than at its beginning, the cost is denied for that much longer. It is 0 if units come back so quickly that
// waiting would cost throughput.
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

// DecideForWaiter returns the decision about a cost for a caller that waited when the store was called. The decision
// stands even if the denial has expired.
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

// newDenial returns what a decision says about a check for at most hold µs, or nil if it denies nothing. old is the
// entry before it, or nil.
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

// coverAllCosts makes the denial hold for every cost, if the decision tells enough for that.
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
			return false // the fraction of a unit is not known to the microsecond
		}
		e.kind, e.unitTime = draining, period/c.Limit.Count
		// This does not hold for a key whose clock is ahead of ours, or for an estimate.
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

// coverCost makes the denial hold for one cost, besides those of the entry before it that still hold.
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
