package limittest

import (
	"sync/atomic"
	"time"
)

// Start is the initial time of a Clock, and of every case of a script.
var Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// A Clock is a virtual clock that moves only when it is set. It is safe for concurrent use. Create one with
// NewClock.
type Clock struct {
	sinceStart atomic.Int64 // ns
}

// NewClock returns a clock set to Start.
func NewClock() *Clock { return new(Clock) }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return Start.Add(time.Duration(c.sinceStart.Load())) }

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) { c.sinceStart.Add(int64(d)) }

// Set sets the clock to t.
func (c *Clock) Set(t time.Time) { c.sinceStart.Store(int64(t.Sub(Start))) }

// elapsed returns the time since Start.
func (c *Clock) elapsed() time.Duration { return time.Duration(c.sinceStart.Load()) }

// setElapsed sets the clock to a time since Start.
func (c *Clock) setElapsed(d time.Duration) { c.sinceStart.Store(int64(d)) }
