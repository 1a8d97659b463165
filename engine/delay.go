package engine

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A request under on_limit: delay reserves its place by taking at once, from the very counter that others take from, but
// with a capacity that is larger by what comes back in the longest wait. What was consumed is all that a counter knows, so
// this disturbs nobody who takes with the plain capacity. The request is then held until the bucket would have had room
// for it: whoever took earlier, on whatever host, has his turn earlier.
//
// A leaky-bucket is a queue by itself, and its Burst how many may be in it. It is not extended but cut, so that nobody has
// to wait for too long.

// extend returns the limit to take with so that a request can be held for up to wait, and by how many units it is larger.
// Algorithms that have no such queue keep their limit; rules do not let them delay.
func extend(l headgate.Limit, cost int64, wait time.Duration) (headgate.Limit, int64) {
	capacity := l.Capacity()
	if cost > capacity {
		return l, 0
	}
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA:
		more := unitsIn(&l, wait)
		longer := l
		if longer.Burst = capacity + more; longer.Validate() != nil {
			return l, 0 // it would take decades to refill
		}
		return longer, more
	case headgate.LeakyBucket:
		l.Burst = min(capacity, max(cost, 1)+unitsIn(&l, wait))
	}
	return l, 0
}

// unitsIn returns how many units of a bucket come back in a time.
func unitsIn(l *headgate.Limit, t time.Duration) int64 {
	return mulDiv(t.Microseconds(), l.Count, l.Period.Microseconds())
}

// timeFor returns how long so many units of a bucket take to come back, rounded down to microseconds.
func timeFor(l *headgate.Limit, units int64) time.Duration {
	return time.Duration(mulDiv(units, l.Period.Microseconds(), l.Count)) * time.Microsecond
}

// mulDiv returns a·b/c rounded down, at most what a valid limit can come to. All are ≥ 0, and c > 0.
func mulDiv(a, b, c int64) int64 {
	const most = 1 << 53
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return most
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, most))
}

// queue finds out for how long each check of a rule that delays holds the request.
func (v *Verdict) queue() {
	for i := range v.decisions[:v.binding] {
		d, a := &v.decisions[i], &v.asked[i]
		m := &v.matched[a.matched]
		if m.Rule.OnLimit.Action != rules.Delay || d.Limit == 0 {
			continue
		}
		if d.Receipt.Units > 0 {
			l := &v.limit(a).Limit
			switch {
			case l.Algorithm == headgate.LeakyBucket:
				a.wait = d.Delay
			case d.Remaining < a.extended: // more is missing than the capacity
				// From when all comes back to when no more than that is missing.
				a.wait = max(0, d.ResetAfter-timeFor(l, l.Capacity()))
			}
			a.wait = min(a.wait, m.Rule.OnLimit.MaxWait)
		}
		v.plain(i)
	}
}

// plain makes a decision one about the limit as the rule has it.
func (v *Verdict) plain(i int) {
	d, a := &v.decisions[i], &v.asked[i]
	if l := v.limit(a); l.Algorithm == headgate.LeakyBucket {
		d.Limit = l.Capacity()
		return
	}
	d.Limit -= a.extended
	if d.Remaining -= a.extended; d.Remaining < 0 {
		d.Remaining = min(0, d.Remaining+a.extended) // what is queued is not a debt
	}
}

// enter counts the request as one that is held, unless there are too many.
func (v *Verdict) enter() bool {
	e := v.engine
	if e.waiting.Add(1) > int64(e.config.MaxWaiting) {
		e.waiting.Add(-1)
		return false
	}
	v.waits = true
	return true
}

// turnAway denies a request that there is no room to hold because of a check.
func (v *Verdict) turnAway(ctx context.Context, check int) {
	for i := range v.decisions[:v.binding] {
		if d := &v.decisions[i]; v.asked[i].wait > 0 {
			d.Allowed, d.RetryAfter = false, v.asked[i].wait
		}
	}
	v.undo(ctx, 0, v.binding)
	v.release(ctx, v.binding, len(v.checks))
	v.holds, v.Delay = false, 0
	v.asked[check].full = true
	v.Decision = v.decisions[check]
	v.refuse(check)
}

// leave gives up the place among those who are held.
func (v *Verdict) leave() {
	v.waits = false
	v.engine.waiting.Add(-1)
}

// Wait holds a request that is delayed until its turn, and returns at once for any other. If ctx ends before, or is sure to,
// it gives back what was taken, as Cancel does, and returns an error: the request is not to be served, and neither Settle
// nor Cancel has anything left to do. What could not be given back is told to Config.OnError.
func (v *Verdict) Wait(ctx context.Context) error {
	if !v.waits {
		return nil
	}
	err := sleep(ctx, v.Delay)
	v.leave()
	if err == nil {
		return nil
	}
	if giving := v.Cancel(ctx); giving != nil {
		v.engine.report(giving)
	}
	return fmt.Errorf("engine: wait for rule %s: %w", v.Rule.ID, err)
}

// sleep waits for d, or returns at once if ctx cannot last that long.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("%s is needed: %w", d, context.DeadlineExceeded)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
