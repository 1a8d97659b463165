package pacer

// A schedule computes when permits may be used. Its methods are pure functions: they read no clock and change nothing,
// so a caller may discard their results. Instants are nanoseconds since the pacer was created.
type schedule interface {
	// take takes n permits that a caller requests at the instant at. It returns the state after that, and the instant at
	// which the permits may be used, which is not before at.
	take(s state, at, n int64) (after state, passAt int64)
	// takeLate takes n permits for a reservation whose promised instant is at, although they could be used earlier because
	// a caller in front has left. promised is the state after the reservation at the time when it was made. Callers behind
	// the reservation must not pass later than they would after promised.
	takeLate(s state, at, n int64, promised state) state
	// advance returns the state at the instant at if no permits are taken until then. If at is in the past of the state,
	// nothing changes.
	advance(s state, at int64) state
}

// A state says how far a schedule is booked. In the zero state, the first caller may pass immediately, and no idle time
// is saved.
type state struct {
	// free is the instant from which nothing is booked. For a window, it is the start of the current period.
	free span
	// saved is the idle time that pays for permits of later callers.
	saved span
	// used is the number of permits that were taken in the current period of a window.
	used int64
	// reservedUntil is the latest promised instant of a reservation. No caller behind the reservation passes before it.
	// Only the callerQueue uses this field.
	reservedUntil int64
}

// neverFree reports whether the schedule is booked until farFuture.
func (s state) neverFree() bool { return s.free.ns >= farFuture }
