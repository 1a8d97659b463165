package pacer

import (
	"fmt"
	"math"
	"time"
)

// MaxReservations is how many reservations of one pacer may be outstanding: made, not cancelled, and for a time that has
// not come. More are refused with ErrTooManyReservations. The pacer remembers each of them, and has all whose time has
// come to book when it is next called, so this bounds its memory and how long a call can take.
const MaxReservations = 1 << 16

// Reservation is a promise of permits at an instant, for callers who don't want to block: wait for Delay, then go ahead,
// or Cancel. The time that was promised never changes, whatever happens to those in front and whatever the rate is set
// to; nor does Close take it back.
//
// Reservations stand in line like callers who wait. Who comes later goes later, even if the pacer has become idle before
// the promised time because somebody in front has left. The zero Reservation is not OK. It is safe for concurrent
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

// Cancel gives the permits back: callers who wait behind move up, and nobody has to go later than before but for the
// rounding of a promised time to the nanosecond. It does nothing once the promised time has come, for the permits may
// have been used, and nothing the second time.
//
// Reservations made later keep the times they were promised and gain nothing. Callers behind such a promise move up to it
// and no further: they wait for it even if the pacer has nothing to do until then. What a pacer makes of that gap is its
// own affair. [Bursty] and [TokenQueue] save it as far as they save idle time, [Allowance] has those periods' permits go
// to nobody, and with [WarmingUp] and [Queue] it is lost; WarmingUp does not cool in it.
//
// The last one in line is cancelled at no cost. After any other, the next caller works out anew when those in line go,
// which takes time in proportion to how many they are: some milliseconds if there are MaxReservations.
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
	if err := l.roomFor(n); err != nil {
		return Reservation{err: err}
	}
	if l.promises >= MaxReservations {
		return Reservation{err: fmt.Errorf("%w: %d are outstanding", ErrTooManyReservations, l.promises)}
	}
	p := &place{n: n, since: now, at: grant, promised: true}
	after.promised = grant
	l.join(p, after)
	return Reservation{line: l, place: p, at: grant}
}
