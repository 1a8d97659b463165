package fleet

import "time"

// A Clock tells the time to what runs across hosts, and wakes it. A simulator gives its own.
type Clock interface {
	// Now returns the time since some fixed moment. It never goes back, and is not moved when the host's date is.
	Now() time.Duration
	// AfterFunc calls f once, in a goroutine of its own, when d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a call that is still to come.
type Timer interface {
	// Stop reports whether it kept the call from being made.
	Stop() bool
}

// System returns the clock of this host.
func System() Clock { return system{start: time.Now()} }

type system struct{ start time.Time }

func (s system) Now() time.Duration { return time.Since(s.start) }

func (s system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
