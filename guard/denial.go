package guard

import (
	"math"
	"time"

	"github.com/headgate/headgate"
)

// A denial is what an answer of the store told about a key: enough to say for a while what the store would. It does not
// change once it is made. Times are in µs by the guard's clock and count from when the store was asked, which is before
// it decided, so that nothing is denied for longer than the store said.
type denial struct {
	hash       uint64
	key, owner string
	limit      headgate.Limit
	split      int

	asked int64
	span  int64 // how long the answer took, in which the store decided
	until int64 // from when on it says nothing
	told  uint8

	remaining int64
	reset     int64 // when the key is as good as new
	unit      int64 // in how many µs one unit comes back, if toldDrain
	steps     []step
}

// What an answer told.
const (
	toldSteps  uint8 = iota // about the costs that were asked for
	toldWindow              // all: what remains stays until the window ends, at reset
	toldDrain               // all: a unit comes back every so many µs until reset
)

// A step is the denial of one cost.
type step struct {
	cost      int64 // above the capacity all are the same, and stand here as the capacity + 1
	until     int64
	retry     int64 // when it would pass; forever if never
	remaining int64
	reset     int64
}

const (
	maxSteps = 8
	forever  = math.MaxInt64
)

// is reports whether e is about the counter that a check asks for, and its limit.
func (e *denial) is(hash uint64, c *headgate.Check) bool {
	return e.hash == hash && e.key == c.Key && e.owner == c.Owner && e.limit == c.Limit && e.split == c.Split
}

// same reports whether e is about the same counter and limit as another.
func (e *denial) same(other *denial) bool {
	return e.hash == other.hash && e.key == other.key && e.owner == other.owner && e.limit == other.limit && e.split == other.split
}

// answer returns the denial of a cost at a time, if it is one that e can tell of.
func (e *denial) answer(cost, now int64) (headgate.Decision, bool) {
	if now < e.asked || now >= e.until {
		return headgate.Decision{}, false
	}
	d := headgate.Decision{Limit: e.limit.Capacity()}
	if e.told == toldSteps {
		cost = min(cost, d.Limit+1)
		for i := range e.steps {
			if s := &e.steps[i]; s.cost == cost && now < s.until {
				d.Remaining = s.remaining
				d.ResetAfter = micros(max(0, s.reset-now))
				d.RetryAfter = headgate.Never
				if s.retry != forever {
					d.RetryAfter = micros(s.retry - now)
				}
				return d, true
			}
		}
		return headgate.Decision{}, false
	}
	left := max(0, e.reset-now)
	d.Remaining = e.remaining
	if e.told == toldDrain {
		d.Remaining = d.Limit - ceilDiv(left, e.unit)
	}
	if cost <= d.Remaining {
		return headgate.Decision{}, false
	}
	d.ResetAfter = micros(left)
	switch {
	case cost > d.Limit:
		d.RetryAfter = headgate.Never
	case e.told == toldDrain:
		d.RetryAfter = micros(left - (d.Limit-cost)*e.unit)
	default:
		d.RetryAfter = micros(left)
	}
	return d, true
}

// doubt returns for how long it is not known whether a cost passes: had the store decided when its answer came, rather than
// when it was asked, the cost would be denied for so much longer. It is 0 for what comes back so quickly that waiting for
// it would cost something.
func (e *denial) doubt(cost, now int64) int64 {
	if e.span*doubtShare > e.limit.Period.Microseconds()/e.limit.Count {
		return 0
	}
	if d, ok := e.answer(cost, now-e.span); ok && d.RetryAfter != headgate.Never && d.RetryAfter <= micros(e.span) {
		return d.RetryAfter.Microseconds()
	}
	return 0
}

// doubtShare is how many times longer than an answer a unit must take to come back for doubts to be waited for.
const doubtShare = 8

// share returns the denial of a cost for one who waited when the store was asked: it stands even if it holds no longer.
func (e *denial) share(cost, now int64) (headgate.Decision, bool) {
	d, ok := e.answer(cost, e.asked)
	if !ok {
		return d, false
	}
	since := micros(max(0, now-e.asked))
	if d.RetryAfter != headgate.Never {
		d.RetryAfter = max(time.Microsecond, d.RetryAfter-since)
	}
	d.ResetAfter = max(0, d.ResetAfter-since)
	return d, true
}

// denialOf returns what an answer told at a time about a check, nil if nothing is denied by it. What it says holds for
// so many µs at most. old is what was known before, or nil.
func denialOf(hash uint64, c *headgate.Check, asked, hold int64, d *headgate.Decision, old *denial) *denial {
	if d.Limit != c.Limit.Capacity() {
		return nil
	}
	e := &denial{
		hash: hash, key: c.Key, owner: c.Owner, limit: c.Limit, split: c.Split,
		asked: asked, until: asked + hold,
		remaining: d.Remaining, reset: asked + d.ResetAfter.Microseconds(),
	}
	if isEstimate(c) {
		hold = max(1, hold/estimateShare)
	} else if e.tellAll(c, d) {
		return e
	}
	if d.Allowed {
		return nil
	}
	e.tellStep(c, d, hold, old)
	return e
}

// estimateShare is by how much shorter a denial is remembered that says only when it ends at the latest.
const estimateShare = 100

func isEstimate(c *headgate.Check) bool {
	return c.Limit.Algorithm == headgate.Concurrency || c.Split > 1
}

// tellAll fills in what holds for every cost, and reports whether the answer is of the kind that says so.
func (e *denial) tellAll(c *headgate.Check, d *headgate.Decision) bool {
	reset, retry := d.ResetAfter.Microseconds(), d.RetryAfter.Microseconds()
	never := d.RetryAfter == headgate.Never
	switch c.Limit.Algorithm {
	case headgate.FixedWindow:
		e.told = toldWindow
		if (reset == 0) != (d.Remaining == d.Limit) || !d.Allowed && !never && retry != reset {
			return false
		}
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		period := c.Limit.Period.Microseconds()
		if period%c.Limit.Count != 0 {
			return false // what is left of a unit is not known to the microsecond
		}
		e.told, e.unit = toldDrain, period/c.Limit.Count
		// It is not so simple for a key whose time is ahead of ours, or if the answer is an estimate.
		if d.Remaining != d.Limit-ceilDiv(reset, e.unit) || !d.Allowed && !never && retry != reset-(d.Limit-c.Cost)*e.unit {
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

// tellStep adds the denial of one cost to those of other costs that still hold.
func (e *denial) tellStep(c *headgate.Check, d *headgate.Decision, hold int64, old *denial) {
	s := step{
		cost: min(c.Cost, d.Limit+1), until: e.asked + hold, retry: forever,
		remaining: d.Remaining, reset: e.reset,
	}
	if d.RetryAfter != headgate.Never {
		s.retry = e.asked + d.RetryAfter.Microseconds()
		s.until = min(s.until, s.retry)
	}
	e.told, e.until = toldSteps, s.until
	e.steps = append(e.steps, s)
	if old == nil || old.told != toldSteps {
		return
	}
	for _, s := range old.steps {
		if s.cost != e.steps[0].cost && s.until > e.asked && old.asked <= e.asked && len(e.steps) < maxSteps {
			e.steps = append(e.steps, s)
			e.until = max(e.until, s.until)
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
