package ladder

import (
	"context"
	"sync/atomic"
	"time"
)

// A Clock provides the time of a run.
type Clock interface {
	Now() time.Time
	// SleepUntil sleeps until the time at. If ctx ends earlier, it returns the error of ctx.
	SleepUntil(ctx context.Context, at time.Time) error
}

// SystemClock is the system's clock.
type SystemClock struct{}

var _ Clock = SystemClock{}

// Now returns the time.
func (SystemClock) Now() time.Time { return time.Now() }

// SleepUntil implements Clock.
func (SystemClock) SleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A VirtualClock does not wait: SleepUntil sets its time. Create one with NewVirtualClock.
type VirtualClock struct{ unixMicro atomic.Int64 } // atomic, because goroutines of stores read it too

var _ Clock = (*VirtualClock)(nil)

// NewVirtualClock returns a clock whose time is at.
func NewVirtualClock(at time.Time) *VirtualClock {
	c := &VirtualClock{}
	c.unixMicro.Store(at.UnixMicro())
	return c
}

// Now returns the time.
func (c *VirtualClock) Now() time.Time { return time.UnixMicro(c.unixMicro.Load()) }

// SleepUntil moves the clock to a time, rounded up to whole microseconds. It never moves the clock back.
func (c *VirtualClock) SleepUntil(ctx context.Context, at time.Time) error {
	to := at.UnixMicro()
	if at.Nanosecond()%int(time.Microsecond) > 0 {
		to++
	}
	if to > c.unixMicro.Load() {
		c.unixMicro.Store(to)
	}
	return ctx.Err()
}
