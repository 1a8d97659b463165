package pacer

import (
	"math"
	"time"
)

// Reservation is a promise of permits at an instant, for callers who don't want to block: wait for Delay, then go ahead,
// or Cancel. The time that was promised never changes.
//
// A pacer remembers every reservation until its time has come. The zero Reservation is not OK. It is safe for concurrent
// use, and copies are the same reservation.
type Reservation struct {
	line  *line
	place *place
	at    int64
	err   error
}

// OK reports whether the permits were reserved.
func (r Reservation) OK() bool { return r.line != nil }

// Err returns why the permits were not reserved, and nil if they were.
func (r Reservation) Err() error {
	if r.line == nil && r.err == nil {
		return ErrUninitialized
	}
	return r.err
}

// Delay returns how long the holder must wait from now on before using the permits; 0 means that it may use them at
// once. Without a reservation it is the longest Duration, so that a caller who forgets to ask OK waits and does no harm.
func (r Reservation) Delay() time.Duration {
	if r.line == nil {
		return math.MaxInt64
	}
	return max(0, -r.line.since(r.at))
}

// Cancel gives the permits back, as if they had not been reserved: callers who wait behind move up, while reservations
// made later keep the times they were promised and gain nothing. It does nothing once the promised time has come, for
// the permits may have been used, and nothing the second time.
func (r Reservation) Cancel() {
	if r.place == nil {
		return
	}
	r.line.giveUp(r.place)
}

// reserve books n permits for a caller who will not wait here.
func (l *line) reserve(n int64) Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuse(n); err != nil {
		return Reservation{err: err}
	}
	_, now := l.clock()
	after, grant, err := l.ask(now, n)
	if err != nil {
		return Reservation{err: err}
	}
	if l.idle(now, grant) {
		l.pass(after)
		return Reservation{line: l, at: grant}
	}
	p := &place{n: n, since: now, at: grant, promised: true}
	l.join(p, after)
	return Reservation{line: l, place: p, at: grant}
}
