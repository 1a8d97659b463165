package lease

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// maxReturning is the maximum number of returns in progress. Further returns wait.
const maxReturning = 64

// prune ends expired grants, and returns their unused units. The holding is locked.
func (l *Limiter) prune(h *holding, now time.Duration) {
	live := h.grants[:0]
	for _, g := range h.grants {
		if now < g.expires {
			live = append(live, g)
			continue
		}
		unused := g.end()
		h.demand.used += g.size - unused
		if f := h.front.Load(); f == g {
			h.front.Store(nil)
		}
		if unused > 0 {
			l.queueReturn(h, g, unused, now)
		}
	}
	clear(h.grants[len(live):])
	h.grants = live
	if h.front.Load() == nil && len(live) > 0 {
		h.front.Store(live[0])
	}
	if h.unreturned.units > 0 {
		l.returnUnused(h, now, false)
	}
}

// unusedUnits are units to be returned. They are returned with the receipt of their oldest grant, for which the store
// credits the fewest units.
type unusedUnits struct {
	grant *grant
	units int64
}

// queueReturn adds units to the unreturned units. If the store may be called now, it returns all of them. The holding
// is locked.
func (l *Limiter) queueReturn(h *holding, g *grant, units int64, now time.Duration) {
	if o := h.unreturned; o.units > 0 && h.window(o.grant.at) != h.window(g.at) {
		l.counts.expired.Add(o.units)
		h.unreturned = unusedUnits{}
	}
	if h.unreturned.units == 0 {
		h.unreturned.grant = g
	}
	h.unreturned.units += units
	l.returnUnused(h, now, false)
}

// minReturnPart saves store calls: fewer units than 1/minReturnPart of the capacity are not returned while the key is
// in use and the store has many units left.
const minReturnPart = 64

// returnUnused returns unused units in the background. It returns them later if the calls that are allowed now are
// reserved for requests of units, or if there are only few units and the key is in use. idle means that the key is not
// in use. The holding is locked.
func (l *Limiter) returnUnused(h *holding, now time.Duration, idle bool) {
	o := h.unreturned
	needed := 4*h.store.left < h.capacity // few units are left in the store, so other nodes may need these
	reserved := 3                         // number of calls that are reserved for requests of units
	if needed {
		reserved--
	}
	switch {
	case o.units == 0:
		return
	case !h.worthReturning(o.grant, o.units, now):
		l.counts.expired.Add(o.units)
		h.unreturned = unusedUnits{}
		return
	case !idle && !needed && minReturnPart*o.units < h.capacity:
		return
	case now < h.nextSlot()+time.Duration(reserved)*h.calls.interval || l.returning.Load() >= maxReturning:
		return
	}
	l.returning.Add(1)
	c := pendingCall{run: func() {
		defer l.returning.Add(-1)
		l.returnUnits(l.ctx, h, o.grant.receipt(o.units))
	}, cancel: func() {
		l.returning.Add(-1)
		l.counts.expired.Add(o.units)
	}}
	if !l.startInRound(c, now) {
		l.returning.Add(-1) // the limiter is closed, and Close returns the units
		return
	}
	h.unreturned = unusedUnits{}
	h.countCall(now)
}

// window returns the number of the window that contains a time of the store. Buckets have only window 0.
func (h *holding) window(at int64) int64 {
	switch h.limit.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow:
		return at / h.limit.Period.Microseconds()
	default:
		return 0
	}
}

// worthReturning reports whether the store would credit at least half a unit if units were returned now.
func (h *holding) worthReturning(g *grant, units int64, now time.Duration) bool {
	held := now - g.requestedAt
	switch h.limit.Algorithm {
	case headgate.FixedWindow:
		return held < h.untilWindowEnd(g.at)
	case headgate.SlidingWindow:
		return held < h.untilWindowEnd(g.at)+h.limit.Period
	}
	refilled := float64(h.limit.Count) * float64(held) / float64(h.limit.Period)
	return float64(units)-refilled >= 0.5 && float64(g.remaining)+refilled < float64(h.capacity)
}

// returnUnits returns units to the store.
func (l *Limiter) returnUnits(ctx context.Context, h *holding, r headgate.Receipt) {
	ctx, end := l.withTimeout(ctx)
	defer end()
	l.counts.calls.Add(1)
	if err := l.source.Give(ctx, h.check(r.Units), r); err != nil {
		l.counts.failures.Add(1)
		l.counts.expired.Add(r.Units)
		return
	}
	l.counts.returned.Add(r.Units)
}

// idleAfter is the minimum time after which an unused holding is removed.
const idleAfter = 300 * time.Millisecond

// sweep visits holdings that are due, and removes those that are unused.
func (l *Limiter) sweep(due []*holding) {
	for _, h := range due {
		if l.visit(h) {
			l.table.remove(h)
		}
	}
}

// visit ends expired grants, and returns unused units. It reports whether the holding must be removed. If not, it
// schedules the next visit.
func (l *Limiter) visit(h *holding) (remove bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.visits.scheduled = false
	if h.removed {
		return false
	}
	now := l.clock.Elapsed()
	l.prune(h, now)
	nextVisit := idleAfter
	if total := h.total(); total != h.visits.total {
		h.visits.total, h.visits.busyAt = total, now
	}
	if now-h.visits.busyAt >= l.options.TTL {
		l.returnUnused(h, now, true)
	}
	switch {
	case len(h.grants) > 0:
		nextVisit = h.grants[0].expires - now
	case h.unreturned.units > 0:
		nextVisit = l.options.TTL
	case now-h.visits.busyAt >= idleAfter && h.idle() && now >= h.fault.until && now >= h.fault.slowUntil &&
		!h.denies(now):
		h.removed = true
		return true
	}
	h.visits.scheduled = true
	l.wheel.add(h, nextVisit)
	return false
}

// denies reports whether checks are denied without a store call.
func (h *holding) denies(now time.Duration) bool {
	x := h.denial.Load()
	return x != nil && now < x.until
}

// closeReturners is the number of concurrent returns in Close.
const closeReturners = 32

// Close returns the held units, until ctx ends, and stops the Limiter. Waiting and later callers get
// headgate.ErrClosed. Close does not close the source. Calling it again does nothing.
func (l *Limiter) Close(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	l.mu.Lock()
	alreadyClosed := l.closed.Swap(true)
	l.mu.Unlock()
	if alreadyClosed {
		return nil
	}
	defer l.cancel()
	stop := context.AfterFunc(ctx, l.cancel) // when ctx ends, calls in progress end too
	defer stop()
	l.wheel.stop()
	refunds := make(chan refund)
	var workers sync.WaitGroup
	for range closeReturners {
		workers.Go(func() {
			for r := range refunds {
				if ctx.Err() != nil {
					l.counts.expired.Add(r.receipt.Units)
					continue
				}
				l.returnUnits(ctx, r.holding, r.receipt)
			}
		})
	}
	var all []*holding
	l.table.drain(func(h *holding) {
		if l.dismissWaiters(h) {
			all = append(all, h)
		}
	})
	for _, h := range all {
		l.returnAll(h, refunds)
	}
	l.running.Wait() // wait for calls in progress, which may add units
	for _, h := range all {
		l.returnAll(h, refunds)
	}
	close(refunds)
	workers.Wait()
	return ctx.Err()
}

// A refund has units of a holding to return to the store.
type refund struct {
	holding *holding
	receipt headgate.Receipt
}

// dismissWaiters ends the wait of all waiters, because the limiter is closed. It reports whether the holding has units
// to return, or may get some from a call in progress.
func (l *Limiter) dismissWaiters(h *holding) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls.timer != nil {
		h.calls.timer.Stop()
		h.calls.timer = nil
	}
	h.answerAll(answer{outcome: closed})
	return h.calls.running || len(h.grants) > 0 || h.unreturned.units > 0
}

// returnAll sends the held units of a holding to the workers that return them.
func (l *Limiter) returnAll(h *holding, refunds chan<- refund) {
	h.mu.Lock()
	unused := h.endGrants()
	h.mu.Unlock()
	now := l.clock.Elapsed()
	for _, u := range unused {
		if h.worthReturning(u.grant, u.units, now) {
			refunds <- refund{h, u.grant.receipt(u.units)}
		} else {
			l.counts.expired.Add(u.units)
		}
	}
}

// endGrants ends all grants. It returns their unused units, and the units that wait to be returned. The holding is
// locked.
func (h *holding) endGrants() (unused []unusedUnits) {
	for _, g := range h.grants {
		units := g.end()
		h.demand.used += g.size - units
		if units > 0 {
			unused = append(unused, unusedUnits{g, units})
		}
	}
	if h.unreturned.units > 0 {
		unused = append(unused, h.unreturned)
	}
	h.grants, h.unreturned = nil, unusedUnits{}
	h.front.Store(nil)
	return unused
}
