package engine

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/rules"
)

// A request under on_limit: delay reserves its place in the queue by taking its units at once, before they are
// restored. For this the capacity of the limit is extended by the units that are restored during the longest delay. The
// extended limit and the rule's own limit use the same counter; this is possible because a counter stores only how many
// units were consumed. The request is then delayed until the rule's own capacity would have had room for it. Requests
// are served in the order in which they took their units, on any node.
//
// A leaky-bucket is already a queue whose length is its Burst. Its Burst is not extended but reduced, so that no
// request waits longer than the longest delay.

// extend returns the limit with which a request that may be delayed for up to maxWait takes its units, and the number
// of units by which its capacity was extended. It returns limits of algorithms that cannot delay unchanged.
func extend(l headgate.Limit, cost int64, maxWait time.Duration) (_ headgate.Limit, added int64) {
	capacity := l.Capacity()
	if cost > capacity {
		return l, 0
	}
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA:
		added := unitsIn(&l, maxWait)
		extended := l
		extended.Burst = capacity + added
		if extended.Validate() != nil {
			return l, 0 // invalid, because the bucket would take decades to refill
		}
		return extended, added
	case headgate.LeakyBucket:
		l.Burst = min(capacity, max(cost, 1)+unitsIn(&l, maxWait))
	}
	return l, 0
}

// unitsIn returns how many units of a bucket are restored in the time t, rounded down.
func unitsIn(l *headgate.Limit, t time.Duration) int64 {
	return mulDiv(t.Microseconds(), l.Count, l.Period.Microseconds())
}

// timeFor returns the time in which units of a bucket are restored, rounded down to microseconds.
func timeFor(l *headgate.Limit, units int64) time.Duration {
	return time.Duration(mulDiv(units, l.Period.Microseconds(), l.Count)) * time.Microsecond
}

// mulDiv returns a·b/c rounded down, at most 2^53, which exceeds any valid limit. All arguments are ≥ 0, and c > 0.
func mulDiv(a, b, c int64) int64 {
	const maximum = 1 << 53
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return maximum
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, maximum))
}

// setDelays sets, for every check of a rule with on_limit: delay, how long it delays the request.
func (v *Verdict) setDelays() {
	for i := range v.decisions[:v.enforcedCount] {
		d, info := &v.decisions[i], &v.infos[i]
		m := &v.matched[info.matched]
		if m.Rule.OnLimit.Action != rules.Delay || d.Limit == 0 {
			continue
		}
		if d.Receipt.Units > 0 {
			l := &v.limit(info).Limit
			switch {
			case l.Algorithm == headgate.LeakyBucket:
				info.wait = d.Delay
			case d.Remaining < info.extraCapacity: // more units are consumed than the rule's own capacity
				// After ResetAfter, all units are restored. The request waits only until the level has fallen to the rule's own
				// capacity.
				info.wait = max(0, d.ResetAfter-timeFor(l, l.Capacity()))
			}
			info.wait = min(info.wait, m.Rule.OnLimit.MaxWait)
		}
		v.reportRuleLimit(i)
	}
}

// reportRuleLimit converts a decision about the extended limit to one about the limit that the rule states.
func (v *Verdict) reportRuleLimit(i int) {
	d, info := &v.decisions[i], &v.infos[i]
	if l := v.limit(info); l.Algorithm == headgate.LeakyBucket {
		d.Limit = l.Capacity()
		return
	}
	d.Limit -= info.extraCapacity
	if d.Remaining -= info.extraCapacity; d.Remaining < 0 {
		d.Remaining = min(0, d.Remaining+info.extraCapacity) // units of waiting requests are not a debt
	}
}

// startWaiting counts the request as delayed. It returns false if too many requests are already being delayed.
func (v *Verdict) startWaiting() bool {
	e := v.engine
	if e.waiting.Add(1) > int64(e.config.MaxWaiting) {
		e.waiting.Add(-1)
		return false
	}
	v.isDelayed = true
	return true
}

// rejectFull denies a request that cannot be delayed because too many others are being delayed.
func (v *Verdict) rejectFull(ctx context.Context, check int) {
	for i := range v.decisions[:v.enforcedCount] {
		if d := &v.decisions[i]; v.infos[i].wait > 0 {
			d.Allowed, d.RetryAfter = false, v.infos[i].wait
		}
	}
	v.refundChecks(ctx, 0, v.enforcedCount)
	v.releaseSlots(ctx, v.enforcedCount, len(v.checks))
	v.holdsUnits, v.Delay = false, 0
	v.infos[check].queueFull = true
	v.Decision = v.decisions[check]
	v.denyByCheck(check)
}

// stopWaiting stops counting the request as delayed.
func (v *Verdict) stopWaiting() {
	v.isDelayed = false
	v.engine.waiting.Add(-1)
}

// Wait blocks until a delayed request may be served. For any other request it returns at once. If ctx ends or its
// deadline passes before then, Wait refunds the units as Cancel does and returns an error. The request must then not be
// served, and Settle and Cancel do nothing. Config.OnError is called if units could not be refunded.
func (v *Verdict) Wait(ctx context.Context) error {
	if !v.isDelayed {
		return nil
	}
	err := v.engine.sleep(ctx, v.Delay)
	v.stopWaiting()
	if err == nil {
		return nil
	}
	if cancelErr := v.Cancel(ctx); cancelErr != nil {
		v.engine.report(cancelErr)
	}
	return fmt.Errorf("engine: wait for rule %s: %w", v.Rule.ID, err)
}

// sleep waits for d. It returns an error when ctx ends, and at once if the deadline of ctx is earlier.
func (e *Engine) sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(e.config.Clock.Now()) < d {
		return fmt.Errorf("%s is needed: %w", d, context.DeadlineExceeded)
	}
	return clock.Sleep(ctx, e.config.Clock, d)
}
