package skew

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
)

// Windows start at times of day. Nodes that each used their own clock would count in different windows. So all use one
// clock: that of a server, or the median of their own. Buckets do not use it.
//
// A node can find out that it used a different time. If the fleet's clock is ahead, the window ends early and the next
// one starts. If it is behind, the current window lasts until it ends by the fleet's clock, so no window is counted
// twice. A window that would not start for a long time is dropped. Its key is closed until the current window ends, as
// the consumption in that window is not known.

const (
	// ReadInterval is how often the clock is read, and retryInterval the pause after a failure.
	ReadInterval  = time.Second
	retryInterval = 10 * time.Second
	// Drift is how fast two clocks may drift apart: by one part in Drift.
	Drift = 5000
)

// IsTooLarge reports whether a clock is off by MaxClockSkew or more. A clock that was off counts as off until it is 10
// % closer, so that it is not reported again and again.
func IsTooLarge(off time.Duration, wasOff bool) bool {
	if wasOff {
		return off.Abs() >= fleet.MaxClockSkew*9/10
	}
	return off.Abs() >= fleet.MaxClockSkew
}

// An Estimate estimates how far another clock is ahead of this node's. A reading was taken at some moment between the
// request and the response, which bounds the difference. All readings are combined, so that the fastest response
// counts, and the estimate moves no further than it must.
type Estimate struct {
	least, most time.Duration
	at          time.Duration // when the bounds held, by the clock
	ahead       time.Duration
	set         bool
}

// Update adds a reading of the other clock, relative to the start of the node's clock, and the times of request and
// response. It returns the new estimate.
func (e *Estimate) Update(reading, requestedAt, respondedAt time.Duration) time.Duration {
	least, most := reading-respondedAt, reading-requestedAt
	if e.set {
		drift := (respondedAt - e.at) / Drift
		if low, high := max(least, e.least-drift), min(most, e.most+drift); low <= high {
			least, most = low, high
		} else {
			e.set = false // the other clock was set, or is another server's
		}
	}
	if !e.set {
		e.ahead = least + (most-least)/2
	}
	e.ahead = min(max(e.ahead, least), most)
	e.least, e.most, e.at, e.set = least, most, respondedAt, true
	return e.ahead
}

// A Tracker follows the clock of a ClockSource.
type Tracker struct {
	source   fleet.ClockSource // nil if there is none
	clock    clock.Stopwatch
	deadline time.Duration
	set      func(ahead time.Duration)
	report   func(fleet.Event)

	mu       sync.Mutex // held while the clock is read
	estimate Estimate
	next     time.Duration // when to read the clock next
	reported bool          // that the clock is off
	ahead    atomic.Int64  // ns
}

// NewTracker returns a Tracker of the clock of x, if x has one. set is called with each estimate, and report when the
// clock starts or stops to differ by more than MaxClockSkew.
func NewTracker(
	x fleet.Exchange, clock clock.Stopwatch, deadline time.Duration, set func(ahead time.Duration),
	report func(fleet.Event),
) *Tracker {
	from, _ := x.(fleet.ClockSource)
	return &Tracker{source: from, clock: clock, deadline: deadline, set: set, report: report}
}

// ReadIfDue reads the clock if it is time to.
func (c *Tracker) ReadIfDue(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil || c.clock.Elapsed() < c.next {
		return
	}
	_ = c.read(ctx) // it is read again later
}

// Read reads the clock.
func (c *Tracker) Read(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		return nil
	}
	return c.read(ctx)
}

// Known reports whether the clock was read.
func (c *Tracker) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate.set
}

func (c *Tracker) read(ctx context.Context) error {
	ctx, done := clock.WithTimeout(ctx, c.clock, c.deadline)
	defer done()
	requestedAt := c.clock.Elapsed()
	reading, err := c.source.Time(ctx)
	respondedAt := c.clock.Elapsed()
	if err != nil {
		c.next = respondedAt + retryInterval
		return err
	}
	c.next = respondedAt + ReadInterval
	ahead := c.estimate.Update(reading.Sub(c.clock.Start), requestedAt, respondedAt)
	c.set(ahead)
	c.ahead.Store(int64(ahead))
	if off := IsTooLarge(ahead, c.reported); off != c.reported {
		c.reported = off
		kind := fleet.ClockRight
		if off {
			kind = fleet.ClockOff
		}
		c.report(fleet.Event{Kind: kind, Off: -ahead})
	}
	return nil
}

// Ahead returns how far the other clock is ahead of this node's.
func (c *Tracker) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }
