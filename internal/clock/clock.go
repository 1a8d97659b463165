// Package clock has the interface of the clock that packages of Headgate take as an option, so that a simulator can
// run them in virtual time.
package clock

import (
	"context"
	"time"
)

// A Clock reads the time and runs timers. It is safe for concurrent use. Programs use [System].
type Clock interface {
	// Now returns the time of day. As with time.Now, changing the time of day of the system does not affect the
	// difference between two results.
	Now() time.Time
	// Since returns the time that has passed since t, a result of Now. It never decreases, and is faster than Now.
	Since(t time.Time) time.Duration
	// AfterFunc calls f in its own goroutine after d. The channel of the timer is nil.
	AfterFunc(d time.Duration, f func()) Timer
	// NewTimer returns a timer that sends the time on its channel after d.
	NewTimer(d time.Duration) Timer
}

// A Timer is a pending event of a Clock. Its methods are those of time.Timer.
type Timer interface {
	C() <-chan time.Time
	// Stop prevents the event. It reports whether the event was pending.
	Stop() bool
	// Reset makes the event happen after d from now. It reports whether the event was pending.
	Reset(d time.Duration) bool
}

// A Scheduler is a Clock that runs one goroutine at a time in virtual time, as a simulator does. Code that takes a
// Clock starts goroutines with [Go]. Before it blocks until another goroutine of the same clock has done
// something, it calls Wait.
type Scheduler interface {
	Clock
	// Go runs a function in a goroutine.
	Go(run func())
	// Wait lets other goroutines run until ready, which must not block, returns true.
	Wait(ready func() bool)
}

// Go runs a function in a goroutine of the clock.
func Go(c Clock, run func()) {
	if s, ok := c.(Scheduler); ok {
		s.Go(run)
		return
	}
	go run()
}

// System is the clock of the operating system.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                  { return time.Now() }
func (system) Since(t time.Time) time.Duration { return time.Since(t) }
func (system) NewTimer(d time.Duration) Timer  { return systemTimer{time.NewTimer(d)} }
func (system) AfterFunc(d time.Duration, f func()) Timer {
	return systemTimer{time.AfterFunc(d, f)}
}

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// Sleep waits for d. It returns early with ctx's error if ctx is done.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	if s, ok := c.(Scheduler); ok {
		s.Wait(func() bool { return len(timer.C()) > 0 || ctx.Err() != nil })
	}
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WithTimeout returns a context that ends after d by the clock, with context.DeadlineExceeded as its cause. The
// returned function releases it.
func WithTimeout(ctx context.Context, c Clock, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// A Stopwatch is a Clock that also measures the time since it was started.
type Stopwatch struct {
	Clock
	Start time.Time
}

// NewStopwatch returns a Stopwatch that is started now.
func NewStopwatch(c Clock) Stopwatch { return Stopwatch{c, c.Now()} }

// Elapsed returns the time since the start.
func (s Stopwatch) Elapsed() time.Duration { return s.Since(s.Start) }
