package fleet

import "time"

// A Clock measures time and runs timers. A simulator has its own.
type Clock interface {
	// Now returns the time since some fixed moment. It never goes back, and does not change when the time of day is set.
	Now() time.Duration
	// AfterFunc calls f once in its own goroutine after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a pending call of a Clock.
type Timer interface {
	// Stop prevents the call. It reports whether it did.
	Stop() bool
}

// SystemClock returns the clock of this host.
func SystemClock() Clock { return systemClock{start: time.Now()} }

type systemClock struct{ start time.Time }

func (s systemClock) Now() time.Duration { return time.Since(s.start) }

func (s systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
