package lease

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

// A waiter is a caller that waits for units.
type waiter struct {
	cost    int64
	answers chan answer // has a buffer of one, so that sending does not block
}

// An answer ends the wait of a waiter.
type answer struct {
	decision headgate.Decision
	outcome  outcome
}

// An outcome is the result of decideOrWait, or of a wait.
type outcome uint8

const (
	decided        outcome = iota // there is a decision
	waiting                       // the check waits for an answer
	removed                       // the holding is no longer in the table: look it up again
	callStoreAlone                // call the source for this check alone
	storeFailed                   // the source has just failed
	closed                        // the limiter is closed
)

// decideOrWait decides a check by the held units or a recent denial, or adds a waiter to the queue.
func (l *Limiter) decideOrWait(h *holding, c *headgate.Check) (headgate.Decision, *waiter, outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var d headgate.Decision
	if h.removed {
		return d, nil, removed
	}
	now := l.clock.Elapsed()
	l.prune(h, now)
	if len(h.queue.waiters) == 0 {
		if d, ok := h.takeHeld(now, c.Cost); ok {
			return d, nil, decided
		}
	}
	if x := h.denial.Load(); x != nil && now < x.until && c.Cost >= x.cost {
		l.deny(h, x, now, c.Cost, &d)
		return d, nil, decided
	}
	switch slot := h.nextSlot(); {
	case now < h.fault.slowUntil:
		return d, nil, callStoreAlone
	case now < h.fault.until:
		return d, nil, storeFailed
	case h.store.scarce && !h.calls.running && len(h.queue.waiters) == 0 && now < slot:
		x := &denial{cost: c.Cost, until: slot, retryAt: slot, resetAt: slot, remaining: h.store.left}
		h.denial.Store(x)
		l.deny(h, x, now, c.Cost, &d)
		return d, nil, decided
	case len(h.queue.waiters) >= l.options.MaxWaiting:
		l.counts.crowded.Add(1)
		x := &denial{cost: c.Cost, retryAt: max(slot, now+time.Duration(l.rtt.Load())), resetAt: now}
		l.deny(h, x, now, c.Cost, &d)
		return d, nil, decided
	}
	if len(h.queue.waiters) == 0 {
		h.measure(now) // measure before callers wait, because waiting callers send no further requests
	}
	w := &waiter{cost: c.Cost, answers: make(chan answer, 1)}
	h.queue.waiters = append(h.queue.waiters, w)
	h.queue.units += w.cost
	l.callWhenAllowed(h, now)
	return d, w, waiting
}

// deny counts a denial of n units, and sets the decision.
func (l *Limiter) deny(h *holding, x *denial, now time.Duration, n int64, d *headgate.Decision) {
	h.denied.Add(n)
	l.counts.denied.Add(1)
	x.describe(d, h.capacity, now, n)
}

// wait waits for the answer to a waiter.
func (l *Limiter) wait(ctx context.Context, h *holding, w *waiter, c *headgate.Check) (headgate.Decision, error) {
	if s, ok := l.clock.Clock.(clock.Scheduler); ok { // in a simulator, this goroutine must not block
		s.Wait(func() bool { return len(w.answers) > 0 || ctx.Err() != nil })
	}
	select {
	case ans := <-w.answers:
		switch ans.outcome {
		case callStoreAlone:
			return l.takeExact(ctx, h.ownStrings(c))
		case storeFailed:
			return l.degrade(ctx, h, c)
		case closed:
			return headgate.Decision{}, headgate.ErrClosed
		default:
			return ans.decision, nil
		}
	case <-ctx.Done():
		l.abandon(h, w)
		return headgate.Decision{}, ctx.Err()
	}
}

// abandon removes a waiter from the queue. If the waiter has already got units, abandon puts them back.
func (l *Limiter) abandon(h *holding, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.queue.waiters {
		if other == w {
			h.queue.waiters = slices.Delete(h.queue.waiters, i, i+1)
			h.queue.units -= w.cost
			return
		}
	}
	if ans := <-w.answers; ans.decision.Receipt.Units > 0 {
		h.putBack(ans.decision.Receipt)
	}
}

// answerFirst answers the first waiter.
func (h *holding) answerFirst(ans answer) {
	w := h.queue.waiters[0]
	h.queue.waiters[0] = nil
	h.queue.waiters = h.queue.waiters[1:]
	h.queue.units -= w.cost
	w.answers <- ans
}

// answerAll answers all waiters.
func (h *holding) answerAll(ans answer) {
	for len(h.queue.waiters) > 0 {
		h.answerFirst(ans)
	}
}

// serveWaiters gives held units to the waiters, the first waiter first. If there are not enough units, the other
// waiters stay in the queue if the next call may return enough units for them. Otherwise they get the denial x.
func (l *Limiter) serveWaiters(h *holding, now time.Duration, x *denial) {
	for len(h.queue.waiters) > 0 {
		d, ok := h.takeHeld(now, h.queue.waiters[0].cost)
		if !ok {
			break
		}
		h.answerFirst(answer{decision: d})
	}
	if !h.store.scarce {
		l.callWhenAllowed(h, now)
		return
	}
	slot := h.nextSlot()
	var remaining []*waiter
	for len(h.queue.waiters) > 0 {
		cost := h.queue.waiters[0].cost
		if now >= slot && cost <= h.store.left && (x.cost == 1 || cost < x.cost) {
			remaining = append(remaining, h.queue.waiters[0])
			h.queue.waiters = h.queue.waiters[1:]
			continue
		}
		var d headgate.Decision
		l.deny(h, x, now, cost, &d)
		h.answerFirst(answer{decision: d})
	}
	h.queue.waiters = remaining
	l.callWhenAllowed(h, now)
}
