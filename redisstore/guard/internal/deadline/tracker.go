package deadline

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// Traffic says when a store has sent and received data. It has the same methods as guard.Traffic.
type Traffic interface {
	LastSent(shard string) time.Time
	LastReceived(shard string) time.Time
	HasUnread(shard string) bool
}

const (
	// callerInterval is the time between two checks of the callers' contexts. A call may end this much later than its
	// caller's context.
	callerInterval = time.Millisecond
	// checksPerDeadline is the number of checks of all contexts within a deadline. A late check shows that this process
	// was stalled.
	checksPerDeadline = 8
	// If a check is late by at least minStall, this process was stalled.
	minStall = time.Millisecond
	// A call lasts at most maxDeadlines deadlines, with all extensions.
	maxDeadlines = 10
)

// A Tracker ends the contexts of calls.
type Tracker struct {
	clock   clock.Clock
	timeout time.Duration // the deadline of a call
	traffic Traffic       // nil if the store does not implement it

	mu      sync.Mutex
	active  []*Context    // in no order
	timer   clock.Timer   // runs check; nil until the first call
	checkAt time.Time     // when the timer fires, or zero if it is not set
	watches int           // number of calls of WatchStalls without EndWatch
	stalled time.Duration // total time for which this process was stalled during calls and watches
}

// NewTracker returns a Tracker for calls with a timeout. traffic may be nil.
func NewTracker(clk clock.Clock, timeout time.Duration, traffic Traffic) *Tracker {
	return &Tracker{clock: clk, timeout: timeout, traffic: traffic}
}

// Begin returns a context for a call of a shard that begins now. The call may have waited before, so its deadline may
// be less than a timeout from now. Call End when the call has returned.
func (t *Tracker) Begin(ctx context.Context, shard string, now, deadline time.Time) *Context {
	c := &Context{
		Context: ctx, tracker: t, shard: shard, began: now, deadline: deadline, done: make(chan struct{}),
		sent: t.traffic == nil, extended: t.traffic == nil,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.index = len(t.active)
	t.active = append(t.active, c)
	t.setTimer(t.nextCheck(c, now), now)
	return c
}

// remove ends an active context. mu is held.
func (t *Tracker) remove(c *Context, state uint32) {
	last := len(t.active) - 1
	t.active[c.index] = t.active[last]
	t.active[c.index].index = c.index
	t.active[last] = nil
	t.active = t.active[:last]
	c.index = -1
	c.state.Store(state)
	close(c.done)
}

// interval returns the longest time between two checks.
func (t *Tracker) interval() time.Duration { return max(t.timeout/checksPerDeadline, 1) }

// nextCheck returns when to check a context next.
func (t *Tracker) nextCheck(c *Context, now time.Time) time.Time {
	interval := t.interval()
	if c.Context != context.Background() { // the context may end; to find out with Done would allocate
		interval = min(interval, callerInterval)
	}
	at, end := now.Add(interval), c.end()
	if at.Before(end) {
		return at
	}
	return end
}

// setTimer makes the timer fire at a time or before. mu is held.
func (t *Tracker) setTimer(at, now time.Time) {
	if !t.checkAt.IsZero() && !at.Before(t.checkAt) {
		return
	}
	t.checkAt = at
	if t.timer == nil {
		t.timer = t.clock.AfterFunc(at.Sub(now), t.check)
	} else {
		t.timer.Reset(at.Sub(now))
	}
}

// check runs when the timer fires.
func (t *Tracker) check() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endContexts(t.clock.Now())
}

// endContexts ends the contexts whose deadline has passed or whose caller's context has ended. If the timer has fired
// late, this process was stalled, so deadlines are extended by the delay. mu is held.
func (t *Tracker) endContexts(now time.Time) {
	var stall time.Duration
	if late := now.Sub(t.checkAt); !t.checkAt.IsZero() && late >= minStall {
		stall = late
		t.stalled += stall
	}
	t.checkAt = time.Time{}
	var next time.Time
	if t.watches > 0 {
		next = now.Add(t.interval())
	}
	for i := len(t.active) - 1; i >= 0; i-- { // remove replaces an element by the last one, which was checked before
		c := t.active[i]
		if c.Context.Err() != nil {
			t.remove(c, canceled)
			continue
		}
		if stall >= t.MinStop() && c.stop == 0 {
			c.stop = stall
		} else {
			t.extend(c, c.extra+stall)
		}
		if state := t.stateAt(c, now); state != running {
			t.remove(c, state)
			continue
		}
		if at := t.nextCheck(c, now); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !next.IsZero() {
		t.setTimer(next, now)
	}
}

// maxExtra is how far a deadline may be extended.
func (t *Tracker) maxExtra() time.Duration { return (maxDeadlines - 1) * t.timeout }

// MinStop returns the shortest stall that does not count as overload: this process or its machine was stopped. Such a
// time extends the deadline of a call in full, once.
func (t *Tracker) MinStop() time.Duration { return t.maxExtra() / 2 }

// end returns when a context ends, with extensions. mu is held.
func (c *Context) end() time.Time { return c.deadline.Add(c.extra + c.stop) }

// extend sets by how much a deadline is extended, within the bound.
func (t *Tracker) extend(c *Context, extra time.Duration) { c.extra = min(extra, t.maxExtra()) }

// stateAt returns the state of a running context at a time, and extends its deadline if necessary.
func (t *Tracker) stateAt(c *Context, now time.Time) uint32 {
	if !c.sent {
		if at := t.traffic.LastSent(c.shard); at.IsZero() || !at.Before(c.began) {
			c.sent = true
			t.extend(c, max(c.extra, at.Sub(c.began)))
		}
	}
	switch {
	case now.Before(c.end()):
		return running
	case c.sent && !t.HasUnread(c.shard):
		if c.extended {
			return expired
		}
		c.extended = true
		silence := now.Sub(t.traffic.LastReceived(c.shard))
		if silence >= t.timeout || c.extra >= t.maxExtra() {
			return expired
		}
		t.extend(c, now.Add(t.timeout-silence).Sub(c.deadline)-c.stop)
		return running
	case c.extra >= t.maxExtra():
		return starved
	default:
		t.extend(c, now.Add(callerInterval).Sub(c.deadline)-c.stop)
		return running
	}
}

// WatchStalls makes sure that a stall of this process is noticed until EndWatch, even if no call is active.
func (t *Tracker) WatchStalls() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches++
	now := t.clock.Now()
	t.setTimer(now.Add(t.interval()), now)
}

// EndWatch ends a watch that WatchStalls began.
func (t *Tracker) EndWatch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches--
}

// Stalled returns the total time for which this process was stalled. Only the difference between two results is
// meaningful.
func (t *Tracker) Stalled() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkIfDue()
	return t.stalled
}

// checkIfDue checks the contexts if the timer should have fired already. mu is held.
func (t *Tracker) checkIfDue() {
	if now := t.clock.Now(); !t.checkAt.IsZero() && !now.Before(t.checkAt) {
		t.endContexts(now)
	}
}

// HasExtended reports whether a call of a shard still runs after its original deadline.
func (t *Tracker) HasExtended(shard string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkIfDue()
	now := t.clock.Now()
	for _, c := range t.active {
		if c.shard == shard && !now.Before(c.deadline) {
			return true
		}
	}
	return false
}

// HasUnread reports whether a shard has sent something that this process has not read yet.
func (t *Tracker) HasUnread(shard string) bool { return t.traffic != nil && t.traffic.HasUnread(shard) }
