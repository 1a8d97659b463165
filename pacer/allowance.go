package pacer

import (
	"context"
	"time"
)

// Allowance is a semaphore that is refreshed periodically: so many permits in each period, all of them back when the next
// one starts. What a period leaves over is gone. Permits may all be taken at once, so across the border of two periods
// twice as many can go in a short time; a pacer that evens that out is [Bursty].
//
// Callers who find too few permits wait in line for a later period. The line is strict: a caller who wants many is not
// overtaken by those who want few and therefore always comes to its turn. The first period starts when the Allowance is
// made, and each of the others when the one before it ends.
//
// Most callers want [Allowance.Acquire]. There is no goroutine and nothing to close. The methods of the zero Allowance
// return ErrUninitialized or false. It is safe for concurrent use.
type Allowance struct {
	line line
	rate Rate
}

var _ Pacer = (*Allowance)(nil)

// AllowanceOptions are the options of [NewAllowance].
type AllowanceOptions struct {
	// Rate is how many permits there are in each period, and how long a period is. There is no default.
	Rate Rate
}

// NewAllowance returns an Allowance whose first period starts now.
func NewAllowance(o AllowanceOptions) (*Allowance, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	sched := &window{period: int64(o.Rate.Per), limit: o.Rate.Permits}
	return &Allowance{line: line{epoch: time.Now(), sched: sched, most: sched.limit}, rate: o.Rate}, nil
}

// Acquire takes n permits of one period, waiting in line until there is one that has them. It returns how long it waited.
//
// If ctx has a deadline before that period it returns a [*DeadlineError] at once; if n is above what a period has,
// ErrNever. If ctx is cancelled while it waits it returns ctx's error, and those behind it move up. With an error it has
// taken nothing.
func (a *Allowance) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	return a.line.acquire(ctx, n)
}

// TryAcquire takes n permits and returns true, waiting in line for at most timeout. If the wait would be longer it returns
// false at once and takes nothing, as it does if n is less than 1 or above what a period has.
func (a *Allowance) TryAcquire(n int64, timeout time.Duration) bool {
	return a.line.tryAcquire(n, timeout)
}

// Reserve takes n permits of the first period that has them for those who come now, and doesn't wait for it. See
// [Reservation] for what is promised. If n is above what a period has it is not OK, with ErrNever.
func (a *Allowance) Reserve(n int64) Reservation { return a.line.reserve(n) }

// Available returns how many permits are left in this period. While somebody waits, or holds a reservation for a later
// period, a caller who comes now gets none of them.
func (a *Allowance) Available() int64 {
	l := &a.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return 0
	}
	_, now := l.clock()
	l.settle(now)
	return max(0, a.rate.Permits-l.sched.advance(l.head, now).used)
}

// Rate returns the rate that is in force.
func (a *Allowance) Rate() Rate {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	return a.rate
}

// SetRate changes permits and period at once. What was taken in this period stays taken: of a higher number the rest can
// be had at once. With another Per the period keeps its start and ends Per after it; if that is already past, periods of
// the new length are counted from that start up to now.
//
// Callers in line keep their order and go by the new rate, which may make them late for their deadlines. Those who want
// more than a period now has, or whose period would now come after 73 years, are sent away with ErrNever. Reservations
// keep their times, and callers behind one wait for it.
func (a *Allowance) SetRate(r Rate) error {
	if err := r.validate(); err != nil {
		return err
	}
	l := &a.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return ErrUninitialized
	}
	a.rate = r
	_, now := l.clock()
	sched := &window{period: int64(r.Per), limit: r.Permits}
	l.reschedule(now, sched, sched.limit, func(s state) state { return s })
	return nil
}
