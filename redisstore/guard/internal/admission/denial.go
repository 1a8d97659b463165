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
	// minRestoreTime is the smallest restore time of one unit, as a multiple of the duration of a call, at which callers
	// wait until an uncertainty is over. If units are restored faster, waiting would cost throughput.
	minRestoreTime = 8
	// A denial whose RetryAfter is an estimate is remembered for only 1/estimateShare of the usual time.
	estimateShare = 100
)

// Micros returns a duration of some µs.
func Micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// Matches reports whether the denial is about the key and limit of a check.
func (d *Denial) Matches(hash uint64, c *headgate.Check) bool {
	return d.hash == hash && d.key == c.Key && d.owner == c.Owner && d.limit == c.Limit && d.split == c.Split
}

// Decide returns the decision about a cost at a time, if the denial covers both.
func (d *Denial) Decide(cost, now int64) (headgate.Decision, bool) {
	if now < d.calledAt || now >= d.until {
		return headgate.Decision{}, false
	}
	decision := headgate.Decision{Limit: d.limit.Capacity()}
	if d.kind == perCost {
		cost = min(cost, decision.Limit+1)
		for i := range d.costs {
			if s := &d.costs[i]; s.cost == cost && now < s.until {
				decision.Remaining = s.remaining
				decision.ResetAfter = Micros(max(0, s.reset-now))
				decision.RetryAfter = headgate.Never
				if s.retry != forever {
					decision.RetryAfter = Micros(s.retry - now)
				}
				return decision, true
			}
		}
		return headgate.Decision{}, false
	}
	remaining := max(0, d.reset-now)
	decision.Remaining = d.remaining
	if d.kind == draining {
		decision.Remaining = decision.Limit - ceilDiv(remaining, d.unitTime)
	}
	if cost <= decision.Remaining {
		return headgate.Decision{}, false
	}
	decision.ResetAfter = Micros(remaining)
	switch {
	case cost > decision.Limit:
		decision.RetryAfter = headgate.Never
	case d.kind == draining:
		decision.RetryAfter = Micros(remaining - (decision.Limit-cost)*d.unitTime)
	default:
		decision.RetryAfter = Micros(remaining)
	}
	return decision, true
}

// uncertainty returns for how many µs from now it is not known whether the store would allow a cost. The denial expires
// as if the store had decided at the beginning of the call. If the store decided at the end of the call, it denies the
// cost for longer, by the duration of the call. uncertainty returns 0 if units are restored so quickly that waiting
// would cost throughput.
func (d *Denial) uncertainty(cost, now int64) int64 {
	if d.duration*minRestoreTime > d.limit.Period.Microseconds()/d.limit.Count {
		return 0
	}
	decision, ok := d.Decide(cost, now-d.duration)
	if ok && decision.RetryAfter != headgate.Never && decision.RetryAfter <= Micros(d.duration) {
		return decision.RetryAfter.Microseconds()
	}
	return 0
}

// DecideForWaiter returns the decision about a cost for a caller that was waiting when the store was called. Such a
// caller gets the decision even if the denial has expired since.
func (d *Denial) DecideForWaiter(cost, now int64) (headgate.Decision, bool) {
	decision, ok := d.Decide(cost, d.calledAt)
	if !ok {
		return decision, false
	}
	since := Micros(max(0, now-d.calledAt))
	if decision.RetryAfter != headgate.Never {
		decision.RetryAfter = max(time.Microsecond, decision.RetryAfter-since)
	}
	decision.ResetAfter = max(0, decision.ResetAfter-since)
	return decision, true
}

// newDenial returns the denial that follows from a decision about a check, valid for at most hold µs. It returns nil if
// nothing is denied. old is the previous denial for the check's key and limit, or nil.
func newDenial(hash uint64, c *headgate.Check, calledAt, hold int64, decision *headgate.Decision, old *Denial) *Denial {
	if decision.Limit != c.Limit.Capacity() {
		return nil
	}
	d := &Denial{
		denialID: denialID{hash: hash, key: c.Key, owner: c.Owner, limit: c.Limit, split: c.Split},
		calledAt: calledAt, until: calledAt + hold,
		remaining: decision.Remaining, reset: calledAt + decision.ResetAfter.Microseconds(),
	}
	if isEstimate(c) {
		hold = max(1, hold/estimateShare)
	} else if d.coverAllCosts(c, decision) {
		return d
	}
	if decision.Allowed {
		return nil
	}
	d.coverCost(c, decision, hold, old)
	return d
}

// isEstimate reports whether the RetryAfter of a check's denial is an estimate.
func isEstimate(c *headgate.Check) bool {
	return c.Limit.Algorithm == headgate.Concurrency || c.Split > 1
}

// coverAllCosts makes the denial hold for every cost. It returns false if the decision does not say enough for that.
func (d *Denial) coverAllCosts(c *headgate.Check, decision *headgate.Decision) bool {
	reset, retry := decision.ResetAfter.Microseconds(), decision.RetryAfter.Microseconds()
	never := decision.RetryAfter == headgate.Never
	switch c.Limit.Algorithm {
	case headgate.FixedWindow:
		d.kind = window
		if (reset == 0) != (decision.Remaining == decision.Limit) || !decision.Allowed && !never && retry != reset {
			return false
		}
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		period := c.Limit.Period.Microseconds()
		if period%c.Limit.Count != 0 {
			return false // a unit is not restored in whole microseconds
		}
		d.kind, d.unitTime = draining, period/c.Limit.Count
		// The fields of a decision may contradict each other, for example if the key's clock is ahead of ours.
		if decision.Remaining != decision.Limit-ceilDiv(reset, d.unitTime) ||
			!decision.Allowed && !never && retry != reset-(decision.Limit-c.Cost)*d.unitTime {
			return false
		}
	default:
		return false
	}
	if reset > 0 {
		d.until = min(d.until, d.reset)
	}
	return true
}

// coverCost makes the denial hold for one cost, and for the costs of the previous denial that are still denied.
func (d *Denial) coverCost(c *headgate.Check, decision *headgate.Decision, hold int64, old *Denial) {
	s := costDenial{
		cost: min(c.Cost, decision.Limit+1), until: d.calledAt + hold, retry: forever,
		remaining: decision.Remaining, reset: d.reset,
	}
	if decision.RetryAfter != headgate.Never {
		s.retry = d.calledAt + decision.RetryAfter.Microseconds()
		s.until = min(s.until, s.retry)
	}
	d.kind, d.until = perCost, s.until
	d.costs = append(d.costs, s)
	if old == nil || old.kind != perCost {
		return
	}
	for _, s := range old.costs {
		if s.cost != d.costs[0].cost && s.until > d.calledAt && old.calledAt <= d.calledAt && len(d.costs) < maxCosts {
			d.costs = append(d.costs, s)
			d.until = max(d.until, s.until)
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
