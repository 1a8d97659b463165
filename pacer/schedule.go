package pacer

// schedule is the pure core of a pacer: from a state and an instant it computes when permits may be used and the state
// after that. It reads no clock, has no mutable state and allocates nothing, so its results may be discarded. Instants
// are nanoseconds since the pacer was created.
type schedule interface {
	// take takes n permits requested at an instant, and returns when they may be used: never before at. An instant
	// before one that the state has seen has no effect.
	take(s state, at, n int64) (after state, passAt int64)
	// takeLate takes n permits for a reservation of the instant at. They could be used earlier, because a caller in
	// front has left. promised is the state after the reservation when it was made: callers behind the reservation must
	// not pass later than they would after that state.
	takeLate(s state, at, n int64, promised state) state
	// advance adds the idle time until at to the state.
	advance(s state, at int64) state
}

// state describes how far a schedule has been booked. In the zero state, the first caller may pass immediately
// and nothing is saved.
type state struct {
	// free is the instant from which nothing is booked; for a window, the start of the current period.
	free span
	// saved is the idle time that later callers may use.
	saved span
	// used is the number of permits taken in a window's period.
	used int64
	// reservedUntil is the latest reserved instant; no caller behind passes before it. The queue uses it, not the
	// schedule: a period whose length was changed may have started before.
	reservedUntil int64
}

// neverFree reports whether the state is booked until farFuture.
func (s state) neverFree() bool { return s.free.ns >= farFuture }
