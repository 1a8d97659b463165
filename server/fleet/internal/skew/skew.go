package skew

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
)

// Windows start at fixed times of day. If each node used its own clock, nodes would count in different windows. So all
// nodes use the fleet's clock, which is the clock of a server or the median of the nodes' clocks. Buckets do not use
// it.
//
// A node's estimate of the fleet's clock may change. If the fleet's clock is ahead of the old estimate, the open window
// ends early. If it is behind, the open window lasts longer, until it ends by the fleet's clock, so no window is
// counted twice. If it is behind by more than a window, the node drops its window and opens an earlier one. The
// consumption in that window is unknown, so all requests for the key are denied until it ends.

const (
	// ReadInterval is the time between two readings of the clock. retryInterval is the pause after a failed read.
	ReadInterval  = time.Second
	retryInterval = 10 * time.Second
	// Drift limits how fast two clocks may drift apart: by one part in Drift of the elapsed time.
	Drift = 5000
)

// IsTooLarge reports whether the skew of a clock is at least MaxClockSkew. A skew that was too large counts as too
// large until it is below 90 % of MaxClockSkew, so that a skew near the limit does not cause many events.
func IsTooLarge(off time.Duration, wasTooLarge bool) bool {
	if wasTooLarge {
		return off.Abs() >= fleet.MaxClockSkew*9/10
	}
	return off.Abs() >= fleet.MaxClockSkew
}

// An Estimate estimates how far another clock is ahead of this node's clock. A reading was taken at some moment between
// the request and the response, which gives a lower and an upper bound of the difference. The bounds of all readings
// are combined, so the fastest responses determine the estimate. It changes only as far as the bounds require.
type Estimate struct {
	least, most time.Duration // bounds of the difference
	at          time.Duration // time of the latest reading, by this node's clock
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
			e.set = false // the other clock was adjusted, or another server responds
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
	reported bool          // it was reported that the skew is too large
	ahead    atomic.Int64  // ns
}

// NewTracker returns a Tracker of the clock of x, if x has one. It calls set with each estimate, and report when the
// skew becomes too large or is no longer too large; see IsTooLarge.
func NewTracker(
	x fleet.Exchange, clock clock.Stopwatch, deadline time.Duration, set func(ahead time.Duration),
	report func(fleet.Event),
) *Tracker {
	from, _ := x.(fleet.ClockSource)
	return &Tracker{source: from, clock: clock, deadline: deadline, set: set, report: report}
}

// ReadIfDue reads the clock if the next read is due.
func (c *Tracker) ReadIfDue(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil || c.clock.Elapsed() < c.next {
		return
	}
	_ = c.read(ctx) // after an error, the clock is read again later
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
	if tooLarge := IsTooLarge(ahead, c.reported); tooLarge != c.reported {
		c.reported = tooLarge
		kind := fleet.ClockInSync
		if tooLarge {
			kind = fleet.ClockOutOfSync
		}
		c.report(fleet.Event{Kind: kind, Offset: -ahead})
	}
	return nil
}

// Ahead returns how far the other clock is ahead of this node's.
func (c *Tracker) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }
