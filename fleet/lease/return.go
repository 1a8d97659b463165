package lease

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// maxReturning is how many hand-backs are under way at most. More than that wait.
const maxReturning = 64

// prune ends the grants that have expired, and hands back what was not used. The holding is locked.
func (l *Limiter) prune(h *holding, now time.Duration) {
	live := h.grants[:0]
	for _, g := range h.grants {
		if now < g.expires {
			live = append(live, g)
			continue
		}
		unused := g.end()
		h.used += g.size - unused
		if f := h.front.Load(); f == g {
			h.front.Store(nil)
		}
		if unused > 0 {
			l.handBack(h, g, unused, now)
		}
	}
	clear(h.grants[len(live):])
	h.grants = live
	if h.front.Load() == nil && len(live) > 0 {
		h.front.Store(live[0])
	}
	if h.owed.units > 0 {
		l.settle(h, now, false)
	}
}

// An owing is units that nobody used and that are to be handed back, as those of the oldest grant among them, for which the
// least is credited.
type owing struct {
	of    *grant
	units int64
}

// handBack notes units that are to be handed back, and does so if the store may be called for that. The holding is locked.
func (l *Limiter) handBack(h *holding, g *grant, units int64, now time.Duration) {
	if o := h.owed; o.units > 0 && h.window(o.of.at) != h.window(g.at) {
		l.counters.expired.Add(o.units)
		h.owed = owing{}
	}
	if h.owed.units == 0 {
		h.owed.of = g
	}
	h.owed.units += units
	l.settle(h, now, false)
}

// matters is the part of a limit's capacity below which units are not handed back while their key is in use and the store has
// a good deal left.
const matters = 64

// settle hands back what is owed, in the background. Of the calls that may be made some are left for asking, so it may have to
// wait. The holding is locked.
func (l *Limiter) settle(h *holding, now time.Duration, idle bool) {
	o := h.owed
	needed := 4*h.left < h.capacity // by others
	spare := 3
	if needed {
		spare--
	}
	switch {
	case o.units == 0:
		return
	case !h.worth(o.of, o.units, now):
		l.counters.expired.Add(o.units)
		h.owed = owing{}
		return
	case !idle && !needed && matters*o.units < h.capacity:
		return
	case now < h.nextSlot()+time.Duration(spare)*h.every || l.returning.Load() >= maxReturning:
		return
	}
	l.returning.Add(1)
	if !l.start(func() {
		defer l.returning.Add(-1)
		l.giveBack(l.life, h, o.of.receipt(o.units))
	}) {
		l.returning.Add(-1) // it is closed, and Close will hand them back
		return
	}
	h.owed = owing{}
	h.spend(now)
}

// window returns the number of the window that a time of the store's is in. Buckets have but one.
func (h *holding) window(at int64) int64 {
	switch h.limit.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow:
		return at / h.limit.Period.Microseconds()
	default:
		return 0
	}
}

// worth reports whether the store would credit anything to speak of for units that are handed back now. It credits parts of a unit, too:
// of a slow limit the one unit that came too late is worth nearly all of it.
func (h *holding) worth(g *grant, units int64, now time.Duration) bool {
	held := now - g.asked
	switch h.limit.Algorithm {
	case headgate.FixedWindow:
		return held < h.windowEnds(g.at)
	case headgate.SlidingWindow:
		return held < h.windowEnds(g.at)+h.limit.Period
	}
	back := float64(h.limit.Count) * float64(held) / float64(h.limit.Period)
	return float64(units)-back >= 0.5 && float64(g.remaining)+back < float64(h.capacity)
}

// giveBack gives units back to the store.
func (l *Limiter) giveBack(ctx context.Context, h *holding, r headgate.Receipt) {
	ctx, end := l.within(ctx)
	defer end()
	l.counters.calls.Add(1)
	if err := l.source.Give(ctx, h.check(r.Units), r); err != nil {
		l.counters.failures.Add(1)
		l.counters.expired.Add(r.Units)
		return
	}
	l.counters.returned.Add(r.Units)
}

// idleAfter is after how long a key that nobody asks for is forgotten, at least.
const idleAfter = 300 * time.Millisecond

// sweep looks at holdings whose time has come: what has expired is handed back, and those that are not used are forgotten.
func (l *Limiter) sweep(due []*holding) {
	for _, h := range due {
		if l.visit(h) {
			l.table.remove(h)
		}
	}
}

// visit reports whether a holding can be forgotten.
func (l *Limiter) visit(h *holding) (forget bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inWheel = false
	if h.gone {
		return false
	}
	now := l.clock.Now()
	l.prune(h, now)
	again := idleAfter
	if total := h.total(); total != h.visited {
		h.visited, h.busyAt = total, now
	}
	if now-h.busyAt >= l.options.TTL {
		l.settle(h, now, true)
	}
	switch {
	case len(h.grants) > 0:
		again = h.grants[0].expires - now
	case h.owed.units > 0:
		again = l.options.TTL
	case now-h.busyAt >= idleAfter && h.idle() && now >= h.away && now >= h.slow && !h.denies(now):
		h.gone = true
		return true
	}
	h.inWheel = true
	l.wheel.add(h, again)
	return false
}

// denies tells that a denial is remembered.
func (h *holding) denies(now time.Duration) bool {
	x := h.denial.Load()
	return x != nil && now < x.until
}

// closeReturners is how many hand-backs Close makes at once.
const closeReturners = 32

// Close hands back what is held, as far as ctx allows, and ends everything: callers who wait get headgate.ErrClosed, as do
// those who come later. It does not close the source.
func (l *Limiter) Close(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	l.mu.Lock()
	was := l.closed.Swap(true)
	l.mu.Unlock()
	if was {
		return headgate.ErrClosed
	}
	defer l.die()
	stop := context.AfterFunc(ctx, l.die) // who has no time left does not wait for calls either
	defer stop()
	l.wheel.stop()
	back := make(chan refund)
	var workers sync.WaitGroup
	for range closeReturners {
		workers.Go(func() {
			for r := range back {
				if ctx.Err() != nil {
					l.counters.expired.Add(r.receipt.Units)
					continue
				}
				l.giveBack(ctx, r.holding, r.receipt)
			}
		})
	}
	var all []*holding
	l.table.drain(func(h *holding) {
		if l.quit(h) {
			all = append(all, h)
		}
	})
	for _, h := range all {
		l.empty(h, back)
	}
	l.running.Wait() // those that are under way, whose units come now
	for _, h := range all {
		l.empty(h, back)
	}
	close(back)
	workers.Wait()
	return ctx.Err()
}

// A refund is units on their way back.
type refund struct {
	holding *holding
	receipt headgate.Receipt
}

// quit sends everybody away. It reports whether there is, or will be, something to hand back.
func (l *Limiter) quit(h *holding) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.tellAll(answer{how: isClosed})
	return h.calling || len(h.grants) > 0 || h.owed.units > 0
}

// empty hands back what is held.
func (l *Limiter) empty(h *holding, back chan<- refund) {
	h.mu.Lock()
	now := l.clock.Now()
	var list []refund
	add := func(g *grant, units int64) {
		switch {
		case units == 0:
		case h.worth(g, units, now):
			list = append(list, refund{h, g.receipt(units)})
		default:
			l.counters.expired.Add(units)
		}
	}
	for _, g := range h.grants {
		add(g, g.end())
	}
	add(h.owed.of, h.owed.units)
	h.grants, h.owed = nil, owing{}
	h.front.Store(nil)
	h.mu.Unlock()
	for _, r := range list {
		back <- r
	}
}
