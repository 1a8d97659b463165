package pacer

// schedule is the pure core of a pacer: it says when permits may be used, from a state and an instant to the state
// after and an instant. It reads no clock, holds nothing that changes and allocates nothing, so its steps may be tried
// and thrown away. Instants are nanoseconds since the pacer was made.
type schedule interface {
	// take books n permits that are asked for at an instant, and returns when they may be used: never before at. An
	// instant before one that the state has seen adds nothing.
	take(s state, at, n int64) (after state, grant int64)
	// late books n permits that could be used before the instant for which they were promised, because somebody in front
	// has left. The state after them was to be promised, and nobody behind may come to be later than after that.
	late(s state, at, n int64, promised state) state
	// advance books the time that has passed until at in which nobody asked.
	advance(s state, at int64) state
}

// state is how far a schedule has been booked. The zero state is that of a pacer whose first caller may go at once and
// that has saved nothing.
type state struct {
	// free is the instant from which nothing is booked; for a window, the start of the period that is being used.
	free span
	// saved is the idle time that was put by for later callers.
	saved span
	// used is how many permits of a window's period are gone.
	used int64
	// promised is the latest instant that was promised to anybody; nobody behind goes before it. The line's, not the
	// schedule's: a period whose length was changed may have started before.
	promised int64
}

// full reports whether the state is booked to the end of time.
func (s state) full() bool { return s.free.ns >= farFuture }
