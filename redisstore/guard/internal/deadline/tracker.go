package deadline

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Traffic tells what was sent to a shard and received from it. See guard.Traffic.
type Traffic interface {
	LastSent(shard string) time.Time
	LastReceived(shard string) time.Time
	HasUnread(shard string) bool
}

const (
	// callerInterval is how often the callers' contexts are checked: a call may outlast its caller's context by that much.
	callerInterval = time.Millisecond
	// sweepCalls is after how many new contexts the ended ones are removed, or as many as are active if these are more:
	// otherwise sweeping would be most of the work when many callers wait.
	sweepCalls = 256
	// checksPerDeadline is how often contexts are checked within a deadline.
	checksPerDeadline = 8
	// maxDeadlines is how many deadlines a call lasts at most.
	maxDeadlines = 10
	// minDelay is the delay of a check from which on this process counts as stalled.
	minDelay = time.Millisecond

	never = math.MaxInt64
)

// A Tracker ends the contexts of calls. Begin and End take no lock: a goroutine that is preempted while it holds the
// lock would block all others.
type Tracker struct {
	start    time.Time
	timeout  time.Duration // the deadline of a call
	interval time.Duration // the longest time between checks, to notice when this process stalls
	maxExtra time.Duration // how far a deadline may be extended
	traffic  Traffic       // nil if it is not known

	count     atomic.Uint64           // of all contexts
	sweepAt   atomic.Uint64           // the count of the next sweep
	started   atomic.Pointer[Context] // contexts since the last check, latest first; some have ended
	nextCheck atomic.Int64            // time of the next check, in ns since start, or never
	requested atomic.Int64            // the earliest requested check that the timer is not set to, or never

	mu     sync.Mutex // held to check, and to set the timer
	active []*Context // contexts that had started before the last check
	timer  *time.Timer
}

// NewTracker returns a Tracker for calls with a timeout. traffic may be nil.
func NewTracker(timeout time.Duration, traffic Traffic) *Tracker {
	t := &Tracker{
		start: time.Now(), timeout: timeout, traffic: traffic,
		interval: max(timeout/checksPerDeadline, 1), maxExtra: (maxDeadlines - 1) * timeout,
	}
	t.sweepAt.Store(sweepCalls)
	t.nextCheck.Store(never)
	t.requested.Store(never)
	return t
}

// Begin returns a context for a call of a shard. Call its End when the call has returned.
func (t *Tracker) Begin(ctx context.Context, shard string, now, deadline time.Time) *Context {
	c := &Context{
		Context: ctx, shard: shard, began: now, deadline: deadline, done: make(chan struct{}),
		sent: t.traffic == nil, extended: t.traffic == nil,
	}
	at := int64(t.checkTime(c, now).Sub(t.start)) // before other goroutines can see c
	for {
		c.next = t.started.Load()
		if t.started.CompareAndSwap(c.next, c) {
			break
		}
	}
	if t.count.Add(1) >= t.sweepAt.Load() && t.mu.TryLock() {
		t.check(0)
	} else if at < t.nextCheck.Load() {
		t.request(at)
	}
	return c
}

// checkTime returns when to check a context next.
func (t *Tracker) checkTime(c *Context, now time.Time) time.Time {
	interval := t.interval
	// Only for the background context it is known without a channel that it never ends.
	if c.Context != context.Background() {
		interval = min(interval, callerInterval)
	}
	at, end := now.Add(interval), c.deadline.Add(c.extra)
	if at.Before(end) {
		return at
	}
	return end
}

// request asks for a check at a time or before.
func (t *Tracker) request(at int64) {
	for old := t.requested.Load(); at < old && !t.requested.CompareAndSwap(old, at); old = t.requested.Load() {
	}
	t.serveRequest()
}

// serveRequest sets the timer to the requested check, unless another goroutine has the lock, which then does so after
// it unlocks.
func (t *Tracker) serveRequest() {
	for t.requested.Load() != never && t.mu.TryLock() {
		t.setTimer(t.requested.Swap(never))
		t.mu.Unlock()
	}
}

// setTimer sets the timer to a time, unless it is set to an earlier one. mu is held.
func (t *Tracker) setTimer(at int64) {
	if at >= t.nextCheck.Load() {
		return
	}
	t.nextCheck.Store(at)
	wait := time.Duration(at) - time.Since(t.start)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, func() {
			t.mu.Lock()
			t.check(time.Since(t.start) - time.Duration(t.nextCheck.Load()))
		})
	} else {
		t.timer.Reset(wait)
	}
}

// check ends contexts whose time is over or whose caller has left, and removes those that have ended. delay is how late
// the check is: for that long this process was stalled, so deadlines are extended by it. mu is held, and is unlocked.
func (t *Tracker) check(delay time.Duration) {
	now := time.Now()
	t.nextCheck.Store(never) // before the list is read: a context that begins later requests its own check
	for c := t.started.Swap(nil); c != nil; {
		t.active = append(t.active, c)
		c, c.next = c.next, nil
	}
	if delay < minDelay {
		delay = 0
	}
	active, next := t.active[:0], time.Time{}
	for _, c := range t.active {
		if c.state.Load() != running {
			continue
		}
		if c.Context.Err() != nil {
			c.end(canceled)
			continue
		}
		c.extra = min(c.extra+delay, t.maxExtra)
		if state := t.stateAt(c, now); state != running {
			c.end(state)
			continue
		}
		if at := t.checkTime(c, now); len(active) == 0 || at.Before(next) {
			next = at
		}
		active = append(active, c)
	}
	clear(t.active[len(active):])
	t.active = active
	t.sweepAt.Store(t.count.Load() + max(sweepCalls, uint64(len(active))))
	if len(active) > 0 {
		t.setTimer(int64(next.Sub(t.start)))
	}
	t.mu.Unlock()
	t.serveRequest()
}

// stateAt returns the state of a running context at a time, and extends its deadline if necessary.
func (t *Tracker) stateAt(c *Context, now time.Time) uint32 {
	if !c.sent {
		if at := t.traffic.LastSent(c.shard); at.IsZero() || !at.Before(c.began) {
			c.sent = true
			c.extra = min(max(c.extra, at.Sub(c.began)), t.maxExtra)
		}
	}
	switch {
	case now.Before(c.deadline.Add(c.extra)):
		return running
	case c.sent && !t.HasUnread(c.shard):
		if c.extended {
			return expired
		}
		c.extended = true
		silence := now.Sub(t.traffic.LastReceived(c.shard))
		if silence >= t.timeout || c.extra >= t.maxExtra {
			return expired
		}
		c.extra = min(now.Add(t.timeout-silence).Sub(c.deadline), t.maxExtra)
		return running
	case c.extra >= t.maxExtra:
		return starved
	default:
		c.extra = min(now.Add(callerInterval).Sub(c.deadline), t.maxExtra)
		return running
	}
}

// HasUnread reports whether a shard has sent something that this process has not read yet.
func (t *Tracker) HasUnread(shard string) bool { return t.traffic != nil && t.traffic.HasUnread(shard) }
