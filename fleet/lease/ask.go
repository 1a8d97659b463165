package lease

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/headgate/headgate"
)

// A waiter is a caller who waits for units.
type waiter struct {
	cost int64
	told chan answer // has room for one
}

// A answer is what a waiter is told.
type answer struct {
	decision headgate.Decision
	how      outcome
}

// A outcome is how a check fares that cannot be decided at a look.
type outcome uint8

const (
	decided    outcome = iota
	waits              // for an answer
	outlived           // the holding is gone: look again
	asksItself         // the source is to be asked for this check alone
	cannotAsk          // the source failed just now
	isClosed           // and so did all this
)

const (
	awayFor     = 50 * time.Millisecond
	slowFor     = time.Second
	longestDeny = time.Second // so that a reset or a refund elsewhere shows
)

// enter decides a check with what is known, or puts it in line.
func (l *Limiter) enter(h *holding, c *headgate.Check) (headgate.Decision, *waiter, outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var d headgate.Decision
	if h.gone {
		return d, nil, outlived
	}
	now := l.clock.Now()
	l.prune(h, now)
	if len(h.line) == 0 {
		if d, ok := h.takeHeld(now, c.Cost); ok {
			return d, nil, decided
		}
	}
	if x := h.denial.Load(); x != nil && now < x.until && c.Cost >= x.cost {
		return l.deny(h, x, now, c.Cost), nil, decided
	}
	switch slot := h.nextSlot(); {
	case now < h.slow:
		return d, nil, asksItself
	case now < h.away:
		return d, nil, cannotAsk
	case h.scarce && !h.calling && len(h.line) == 0 && now < slot:
		x := &denial{cost: c.Cost, until: slot, retryAt: slot, resetAt: slot, remaining: h.left}
		h.denial.Store(x)
		return l.deny(h, x, now, c.Cost), nil, decided
	case len(h.line) >= l.options.MaxWaiting:
		l.counters.crowded.Add(1)
		x := &denial{cost: c.Cost, retryAt: max(slot, now+time.Duration(l.rtt.Load())), resetAt: now}
		return l.deny(h, x, now, c.Cost), nil, decided
	}
	if len(h.line) == 0 {
		h.measure(now) // while they wait they want nothing more, and it would look as if there was less demand
	}
	w := &waiter{cost: c.Cost, told: make(chan answer, 1)}
	h.line = append(h.line, w)
	h.queued += w.cost
	l.advance(h, now)
	return d, w, waits
}

// deny denies n units.
func (l *Limiter) deny(h *holding, x *denial, now time.Duration, n int64) (d headgate.Decision) {
	h.denied.Add(n)
	l.counters.denied.Add(1)
	x.describe(&d, h.capacity, now, n)
	return d
}

// wait waits until a waiter is told.
func (l *Limiter) wait(ctx context.Context, h *holding, w *waiter, c *headgate.Check) (headgate.Decision, error) {
	select {
	case t := <-w.told:
		switch t.how {
		case asksItself:
			return l.takeExact(ctx, h.named(c))
		case cannotAsk:
			return l.degrade(ctx, h, c)
		case isClosed:
			return headgate.Decision{}, headgate.ErrClosed
		default:
			return t.decision, nil
		}
	case <-ctx.Done():
		l.giveUp(h, w)
		return headgate.Decision{}, ctx.Err()
	}
}

// giveUp takes a waiter out of the line, or puts back what he was given meanwhile.
func (l *Limiter) giveUp(h *holding, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.line {
		if other == w {
			h.line = append(h.line[:i], h.line[i+1:]...)
			h.queued -= w.cost
			return
		}
	}
	if t := <-w.told; t.decision.Receipt.Units > 0 {
		h.putBack(t.decision.Receipt)
	}
}

// putBack returns units to the grant they are of, and says how many it took.
func (h *holding) putBack(r headgate.Receipt) (n int64) {
	for _, g := range h.grants {
		if g.at == r.At && g.lease == r.Lease && n < r.Units {
			n += g.put(r.Units - n)
		}
	}
	return n
}

// tell answers the first in line.
func (h *holding) tell(t answer) {
	w := h.line[0]
	h.line[0] = nil
	h.line = h.line[1:]
	h.queued -= w.cost
	w.told <- t
}

// tellAll answers everybody in line.
func (h *holding) tellAll(t answer) {
	for len(h.line) > 0 {
		h.tell(t)
	}
}

// advance asks the store for those in line, or sees that it will be asked when it may. The holding is locked.
func (l *Limiter) advance(h *holding, now time.Duration) {
	if h.calling || len(h.line) == 0 || h.timer != nil || h.resetting > 0 {
		return
	}
	if slot := h.nextSlot(); now < slot {
		h.timer = l.clock.AfterFunc(slot-now, func() { l.wake(h) })
		return
	}
	l.call(h, now)
}

// wake asks for those who have waited until the store may be asked.
func (l *Limiter) wake(h *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if !h.gone {
		l.advance(h, l.clock.Now())
	}
}

// renew asks for more before a grant runs out or expires.
func (l *Limiter) renew(h *holding, g *grant) {
	if g.renewing.Load() || !g.renewing.CompareAndSwap(false, true) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := l.clock.Now()
	if h.gone || h.calling || h.resetting > 0 || now < h.nextSlot() || now < h.away || now < h.slow {
		return
	}
	if n := len(h.grants); n > 0 {
		if last := h.grants[n-1]; last != g && now < last.renewAt && last.left.Load() > last.low {
			return // there is more already
		}
	}
	l.counters.renewals.Add(1)
	l.call(h, now)
}

// A request is one call on its way.
type request struct {
	cost              int64 // of the first in line
	need, want, share int64
	most              int64 // the smallest share
	gen               int
	at                time.Duration
}

// aheadOf is for how many hundredths of TTL is asked ahead of demand: as much as will have been used when it is time to ask
// again.
const aheadOf = 80

// call asks the store: for what the first in line needs, and for what those behind him and those to come will. The holding is
// locked.
func (l *Limiter) call(h *holding, now time.Duration) {
	h.measure(now)
	a := request{cost: 1, most: 2 * l.nodes(), gen: h.gen}
	if a.share = a.most; h.share > 0 {
		a.share = min(h.share, a.most)
	}
	if len(h.line) > 0 {
		a.cost = h.line[0].cost
	}
	a.need = max(1, a.cost-h.usable(now))
	a.want = h.queued + h.expected(l.options.TTL*aheadOf/100)
	if len(h.line) > 0 && h.total() == h.queued {
		a.want = h.queued // nobody knows whether there will be more
	} else if h.queued == 0 {
		a.want -= h.usable(now)
	}
	a.want = min(max(a.want, a.need), h.capacity)
	h.spend(now)
	h.calling = true
	l.counters.calls.Add(1)
	if !l.start(func() { l.ask(h, a) }) {
		h.calling = false
		h.tellAll(answer{how: isClosed})
	}
}

// ask makes the call.
func (l *Limiter) ask(h *holding, a request) {
	ctx, end := l.within(l.life)
	defer end()
	a.at = l.clock.Now()
	d, err := l.source.Grant(ctx, h.check(a.need), a.want, a.share)
	now := l.clock.Now()
	if err == nil {
		l.took(now - a.at)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calling = false
	switch {
	case err != nil:
		l.failed(h, now, err)
	case d.Allowed:
		l.granted(h, &a, now, &d)
	case a.gen != h.gen: // by what was consumed before a reset
		l.counters.refusals.Add(1)
		l.advance(h, now)
	default:
		l.counters.refusals.Add(1)
		l.refused(h, &a, now, &d)
	}
}

// took notes how long a call has taken. A longer one counts at once.
func (l *Limiter) took(d time.Duration) {
	old := l.rtt.Load()
	l.rtt.Store(max(int64(d), old+(int64(d)-old)/8)) // two at once may lose one, which does no harm
}

// failed tells those in line that the source cannot be asked.
func (l *Limiter) failed(h *holding, now time.Duration, err error) {
	l.counters.failures.Add(1)
	if errors.Is(err, headgate.ErrClosed) {
		h.tellAll(answer{how: isClosed})
		return
	}
	h.away, h.lastErr = max(now+awayFor, h.nextSlot()), err
	h.tellAll(answer{how: cannotAsk})
}

// refused denies those in line whose units the store does not have.
func (l *Limiter) refused(h *holding, a *request, now time.Duration, d *headgate.Decision) {
	h.contend(a, d.Remaining, 0, time.Duration(l.rtt.Load()))
	h.scarce, h.left = true, d.Remaining
	retryAt := later(a.at, d.RetryAfter)
	x := &denial{
		cost: a.cost, until: max(min(retryAt, a.at+longestDeny), h.nextSlot()), resetAt: later(now, d.ResetAfter),
		remaining: d.Remaining,
	}
	x.retryAt = max(retryAt, x.until)
	h.denial.Store(x)
	l.serve(h, now, x)
}

// later returns a time after a while that may be for ever.
func later(from, d time.Duration) time.Duration {
	if d > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return from + d
}

// granted takes in new units, and serves those in line from them.
func (l *Limiter) granted(h *holding, a *request, now time.Duration, d *headgate.Decision) {
	units := d.Receipt.Units
	l.counters.grants.Add(1)
	l.counters.granted.Add(units)
	g := &grant{
		size: units, expires: a.at + min(l.options.TTL, h.windowEnds(d.Receipt.At)), asked: a.at, low: -1,
		at: d.Receipt.At, lease: d.Receipt.Lease, remaining: d.Remaining, resetAt: now + d.ResetAfter,
	}
	g.left.Store(units)
	g.renewAt = g.expires
	rtt := time.Duration(l.rtt.Load())
	if soon := h.demand * l.options.TTL.Seconds(); soon >= 4 { // so that what is asked for ahead will be used
		g.renewAt -= max(4*rtt, l.options.TTL/10)
		g.low = min(int64(h.demand*(2*rtt+time.Millisecond/2).Seconds()), units/2)
	}
	switch {
	case a.gen != h.gen: // whether the store has forgotten them is not known
		l.counters.expired.Add(units)
		l.advance(h, now)
		return
	case h.gone:
		l.handBack(h, g, units, now)
		return
	case now >= g.expires && now < a.at+l.options.TTL && now-a.at < h.limit.Period: // the window ended on the way
		l.handBack(h, g, units, now)
		l.advance(h, now)
		return
	case now >= g.expires:
		h.slow = now + slowFor
		l.handBack(h, g, units, now)
		h.tellAll(answer{how: asksItself})
		return
	}
	h.contend(a, d.Remaining, units, rtt)
	// Of a bucket that is half full one may have got too little because the others asked at the same time. But if those who
	// waited do not all get something, there are too many of them.
	h.scarce, h.left = units < a.want && (2*d.Remaining < h.capacity || units < h.queued), d.Remaining
	h.denial.Store(nil)
	h.grants = append(h.grants, g)
	if !h.inWheel {
		h.inWheel = true
		l.wheel.add(h, l.options.TTL)
	}
	slot := h.nextSlot()
	l.serve(h, now, &denial{cost: 1, until: slot, retryAt: max(slot, now), resetAt: g.resetAt, remaining: d.Remaining})
	if f := h.front.Load(); f == nil || now >= f.expires || f.left.Load() <= 0 {
		h.front.Store(g)
	}
}

// leastShare is the part of what remains that a node asks for which is alone with a key: not all, since others may come.
const leastShare = 2

// contend learns from an answer whether other nodes take from the key as well. While they do, each node leaves the others
// their part; as long as nobody does, it takes ever larger ones. So a key that is asked for on one of many nodes can be used
// as fully there as on all of them.
func (h *holding) contend(a *request, remaining, units int64, rtt time.Duration) {
	found := remaining + units
	expected, slack := h.left, 1+h.capacity/32
	if h.limit.Algorithm == headgate.TokenBucket || h.limit.Algorithm == headgate.GCRA {
		expected += h.refill(a.at - h.leftAt)
		slack += h.refill(2 * rtt)
	}
	switch {
	case h.leftAt > 0 && min(expected, h.capacity)-found > slack:
		h.share = a.most
	case units > 0 && units < a.want:
		h.share = max(leastShare, a.share/4)
	}
	h.leftAt = max(a.at, 1)
}

// refill returns how many units come back in a time, the capacity at most.
func (h *holding) refill(d time.Duration) int64 {
	n := float64(h.limit.Count) * float64(d) / float64(h.limit.Period)
	return int64(min(n, float64(h.capacity)))
}

// serve hands out what is held to those in line. For those who are left the store is asked again if that makes sense; else
// they are denied.
func (l *Limiter) serve(h *holding, now time.Duration, x *denial) {
	for len(h.line) > 0 {
		d, ok := h.takeHeld(now, h.line[0].cost)
		if !ok {
			break
		}
		h.tell(answer{decision: d})
	}
	if !h.scarce {
		l.advance(h, now)
		return
	}
	slot := h.nextSlot()
	var stay []*waiter
	for len(h.line) > 0 {
		cost := h.line[0].cost
		if now >= slot && cost <= h.left && (x.cost == 1 || cost < x.cost) {
			stay = append(stay, h.line[0])
			h.line = h.line[1:]
			continue
		}
		h.tell(answer{decision: l.deny(h, x, now, cost)})
	}
	h.line = stay
	l.advance(h, now)
}

// windowEnds returns how long the window of units that were granted at a time is still open, counted from then. Buckets have
// none.
func (h *holding) windowEnds(at int64) time.Duration {
	switch h.limit.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow:
		period := h.limit.Period.Microseconds()
		return time.Duration(period-at%period) * time.Microsecond
	default:
		return math.MaxInt64 / 2
	}
}
