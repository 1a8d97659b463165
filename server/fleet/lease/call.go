package lease

import (
	"errors"
	"math"
	"time"

	"github.com/headgate/headgate"
)

const (
	// failurePause is the time after a failed call in which the store is not called for the key.
	failurePause = 50 * time.Millisecond
	// slowPause is the time after a call that took longer than TTL in which the store is called for every check.
	slowPause = time.Second
	// maxDenial is the maximum time for which checks are denied without a store call. After that, a reset or a refund on
	// another node takes effect.
	maxDenial = time.Second
)

// callWhenAllowed calls the store for the waiters, or starts a timer until it may be called. The holding is locked.
func (l *Limiter) callWhenAllowed(h *holding, now time.Duration) {
	if h.calls.running || len(h.queue.waiters) == 0 || h.calls.timer != nil || h.calls.resets > 0 {
		return
	}
	if slot := h.nextSlot(); now < slot {
		h.calls.timer = l.clock.AfterFunc(slot-now, func() { l.wake(h) })
		return
	}
	l.startCall(h, now)
}

// wake is called by the timer of the next call.
func (l *Limiter) wake(h *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.timer = nil
	if !h.removed {
		l.callWhenAllowed(h, l.clock.Elapsed())
	}
}

// renew requests more units before a grant is used up or expires.
func (l *Limiter) renew(h *holding, g *grant) {
	if g.renewing.Load() || !g.renewing.CompareAndSwap(false, true) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := l.clock.Elapsed()
	if h.removed || h.calls.running || h.calls.resets > 0 || now < h.nextSlot() || now < h.fault.until ||
		now < h.fault.slowUntil {
		return
	}
	if n := len(h.grants); n > 0 {
		if last := h.grants[n-1]; last != g && now < last.renewAt && last.left.Load() > last.lowWater {
			return // there is a newer grant
		}
	}
	l.counts.renewals.Add(1)
	l.startCall(h, now)
}

// A request is one call of the store.
type request struct {
	cost              int64 // cost of the first waiter
	need, want, share int64 // need is the cost of the call; for want and share, see Source.Grant
	maxShare          int64 // maximum of share
	generation        int
	at                time.Duration
}

// aheadPercent is the percentage of TTL for which units are requested ahead of demand.
const aheadPercent = 80

// startCall calls the store for the units of the first waiter, of the other waiters, and of the expected demand. The
// holding is locked.
func (l *Limiter) startCall(h *holding, now time.Duration) {
	h.measure(now)
	q := request{cost: 1, maxShare: 2 * l.liveNodes(), generation: h.calls.generation}
	if q.share = q.maxShare; h.store.share > 0 {
		q.share = min(h.store.share, q.maxShare)
	}
	if len(h.queue.waiters) > 0 {
		q.cost = h.queue.waiters[0].cost
	}
	q.need = max(1, q.cost-h.usable(now))
	q.want = h.queue.units + h.expected(l.options.TTL*aheadPercent/100)
	if len(h.queue.waiters) > 0 && h.total() == h.queue.units {
		q.want = h.queue.units // these are the first requests for the key, so there is no other demand yet
	} else if h.queue.units == 0 {
		q.want -= h.usable(now)
	}
	q.want = min(max(q.want, q.need), h.capacity)
	h.countCall(now)
	h.calls.running = true
	l.counts.calls.Add(1)
	c := pendingCall{run: func() { l.callStore(h, q) }, cancel: func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cancelCall()
	}}
	if !l.startInRound(c, now) {
		h.cancelCall()
	}
}

// cancelCall ends a call that did not start, because the limiter is closed. The holding is locked.
func (h *holding) cancelCall() {
	h.calls.running = false
	h.answerAll(answer{outcome: closed})
}

// callStore makes the call.
func (l *Limiter) callStore(h *holding, q request) {
	ctx, end := l.withTimeout(l.ctx)
	defer end()
	q.at = l.clock.Elapsed()
	d, err := l.source.Grant(ctx, h.check(q.need), q.want, q.share)
	now := l.clock.Elapsed()
	if err == nil {
		l.noteRoundTrip(now - q.at)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.running = false
	switch {
	case err != nil:
		l.callFailed(h, now, err)
	case d.Allowed:
		l.callGranted(h, &q, now, &d)
	case q.generation != h.calls.generation: // the refusal counts consumption from before a reset
		l.counts.refusals.Add(1)
		l.callWhenAllowed(h, now)
	default:
		l.counts.refusals.Add(1)
		l.callRefused(h, &q, now, &d)
	}
}

// noteRoundTrip records the duration of a call in a moving average. A longer call raises the average to its own
// duration.
func (l *Limiter) noteRoundTrip(d time.Duration) {
	old := l.rtt.Load()
	l.rtt.Store(max(int64(d), old+(int64(d)-old)/8)) // concurrent updates may lose one, which does not matter
}

// callFailed ends the wait of all waiters after a failed call.
func (l *Limiter) callFailed(h *holding, now time.Duration, err error) {
	l.counts.failures.Add(1)
	if errors.Is(err, headgate.ErrClosed) {
		h.answerAll(answer{outcome: closed})
		return
	}
	h.fault.until, h.fault.err = max(now+failurePause, h.nextSlot()), err
	h.answerAll(answer{outcome: storeFailed})
}

// callRefused handles a denial of the store: it denies waiters that cost too much.
func (l *Limiter) callRefused(h *holding, q *request, now time.Duration, d *headgate.Decision) {
	h.updateShare(q, d.Remaining, 0, time.Duration(l.rtt.Load()))
	h.store.scarce, h.store.left = true, d.Remaining
	retryAt := later(q.at, d.RetryAfter)
	x := &denial{
		cost: q.cost, until: max(min(retryAt, q.at+maxDenial), h.nextSlot()), resetAt: later(now, d.ResetAfter),
		remaining: d.Remaining,
	}
	x.retryAt = max(retryAt, x.until)
	h.denial.Store(x)
	l.serveWaiters(h, now, x)
}

// later returns from + d without overflow.
func later(from, d time.Duration) time.Duration {
	if d > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return from + d
}

// callGranted adds new units, and serves the waiters with them.
func (l *Limiter) callGranted(h *holding, q *request, now time.Duration, d *headgate.Decision) {
	units := d.Receipt.Units
	l.counts.grants.Add(1)
	l.counts.granted.Add(units)
	g := &grant{
		size: units, expires: q.at + min(l.options.TTL, h.untilWindowEnd(d.Receipt.At)), requestedAt: q.at, lowWater: -1,
		at: d.Receipt.At, lease: d.Receipt.Lease, remaining: d.Remaining, resetAt: now + d.ResetAfter,
	}
	g.left.Store(units)
	g.renewAt = g.expires
	rtt := time.Duration(l.rtt.Load())
	// If at least 4 units will be used within TTL, request the next grant early: four round trips before this grant
	// expires, or when the remaining units last for only two round trips. With less demand, units that are requested
	// early would expire unused.
	if expected := h.demand.peak * l.options.TTL.Seconds(); expected >= 4 {
		g.renewAt -= max(4*rtt, l.options.TTL/10)
		g.lowWater = min(int64(h.demand.peak*(2*rtt+time.Millisecond/2).Seconds()), units/2)
	}
	switch {
	case q.generation != h.calls.generation: // a reset may have made the store forget these units
		l.counts.expired.Add(units)
		l.callWhenAllowed(h, now)
		return
	case h.removed:
		l.queueReturn(h, g, units, now)
		return
	case now >= g.expires && now < q.at+l.options.TTL && now-q.at < h.limit.Period: // the window ended during the call
		l.queueReturn(h, g, units, now)
		l.callWhenAllowed(h, now)
		return
	case now >= g.expires: // the call took longer than TTL
		h.fault.slowUntil = now + slowPause
		l.queueReturn(h, g, units, now)
		h.answerAll(answer{outcome: callStoreAlone})
		return
	}
	h.updateShare(q, d.Remaining, units, rtt)
	// A node may get less than it wants even if half of the capacity is left in the store, because other nodes request
	// units at the same time. Then units are scarce only if there are not enough for the waiters.
	h.store.scarce, h.store.left = units < q.want && (2*d.Remaining < h.capacity || units < h.queue.units), d.Remaining
	h.denial.Store(nil)
	h.grants = append(h.grants, g)
	if !h.visits.scheduled {
		h.visits.scheduled = true
		l.wheel.add(h, l.options.TTL)
	}
	slot := h.nextSlot()
	l.serveWaiters(h, now, &denial{
		cost: 1, until: slot, retryAt: max(slot, now), resetAt: g.resetAt, remaining: d.Remaining,
	})
	if f := h.front.Load(); f == nil || now >= f.expires || f.left.Load() <= 0 {
		h.front.Store(g)
	}
}

// untilWindowEnd returns the time from at until the end of the window that contains at. Buckets have one endless
// window.
func (h *holding) untilWindowEnd(at int64) time.Duration {
	switch h.limit.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow:
		period := h.limit.Period.Microseconds()
		return time.Duration(period-at%period) * time.Microsecond
	default:
		return math.MaxInt64 / 2
	}
}
