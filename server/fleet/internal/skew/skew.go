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
// A node can find out that it used another time. If the fleet's clock is ahead, the window ends early and the next one
// starts. If it is behind, the current window lasts until it ends by the fleet's clock, so no window is counted twice.
// A window that would not start for a long time is given up: its key is closed until the present window ends, as its
// consumption is unknown.

const (
	// AskInterval is how often the clock is read, and retryInterval the pause after a failure.
	AskInterval   = time.Second
	retryInterval = 10 * time.Second
	// Drift is how fast two clocks may drift apart: by one part in Drift.
	Drift = 5000
)

// IsOff reports whether a clock is off by MaxClockSkew or more. One that was off stays so until it is 10 % closer, so
// that the report does not flap.
func IsOff(off time.Duration, wasOff bool) bool {
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
func (d *Estimate) Update(reading, asked, answered time.Duration) time.Duration {
	least, most := reading-answered, reading-asked
	if d.set {
		drift := (answered - d.at) / Drift
		if low, high := max(least, d.least-drift), min(most, d.most+drift); low <= high {
			least, most = low, high
		} else {
			d.set = false // the other clock was set, or is another server's
		}
	}
	if !d.set {
		d.ahead = least + (most-least)/2
	}
	d.ahead = min(max(d.ahead, least), most)
	d.least, d.most, d.at, d.set = least, most, answered, true
	return d.ahead
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

// NewTracker returns a Tracker of the clock of x, if x has one. set is
// called with each estimate, and report when the clock gets off by more than MaxClockSkew or right again.
func NewTracker(
	x fleet.Exchange, clock clock.Stopwatch, deadline time.Duration, set func(ahead time.Duration),
	report func(fleet.Event),
) *Tracker {
	from, _ := x.(fleet.ClockSource)
	return &Tracker{source: from, clock: clock, deadline: deadline, set: set, report: report}
}

// AskIfDue reads the clock if it is time to.
func (c *Tracker) AskIfDue(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil || c.clock.Elapsed() < c.next {
		return
	}
	_ = c.ask(ctx) // it is read again later
}

// AskNow reads the clock.
func (c *Tracker) AskNow(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		return nil
	}
	return c.ask(ctx)
}

// Known reports whether the clock was read.
func (c *Tracker) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate.set
}

func (c *Tracker) ask(ctx context.Context) error {
	ctx, done := clock.WithTimeout(ctx, c.clock, c.deadline)
	defer done()
	asked := c.clock.Elapsed()
	reading, err := c.source.Date(ctx)
	answered := c.clock.Elapsed()
	if err != nil {
		c.next = answered + retryInterval
		return err
	}
	c.next = answered + AskInterval
	ahead := c.estimate.Update(reading.Sub(c.clock.Start), asked, answered)
	c.set(ahead)
	c.ahead.Store(int64(ahead))
	if off := IsOff(ahead, c.reported); off != c.reported {
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
