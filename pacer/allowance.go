package pacer

import (
	"context"
	"time"
)

// Allowance is a semaphore that is refreshed periodically: a number of permits in each period, all of them restored
// when the next one starts. Unused permits expire with their period. Permits may all be taken at once, so across the
// border of two periods twice as many can pass in a short time; [Bursty] avoids that.
//
// Callers that find too few permits wait for a later period, in strict order: a caller that wants many is not overtaken
// by callers that want few. The first period starts when the Allowance is created, and each other one when the previous
// one ends.
//
// Most callers want [Allowance.Acquire]. There is no goroutine and nothing to close. The methods of the zero Allowance
// return ErrUninitialized or false. It is safe for concurrent use.
type Allowance struct {
	queue callerQueue
	rate  Rate
}

var _ Pacer = (*Allowance)(nil)

// AllowanceOptions are the options of [NewAllowance].
type AllowanceOptions struct {
	// Rate is the number of permits in each period, and the length of a period. There is no default.
	Rate Rate
}

// NewAllowance returns an Allowance whose first period starts now.
func NewAllowance(o AllowanceOptions) (*Allowance, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	sched := &window{period: int64(o.Rate.Per), limit: o.Rate.Permits}
	return &Allowance{queue: callerQueue{epoch: time.Now(), sched: sched, maxCount: sched.limit}, rate: o.Rate}, nil
}

// Acquire takes n permits of one period, and waits until there is one that has them. It returns how long it waited.
//
// If ctx has a deadline before that period it returns a [*DeadlineError] at once; if n is above a period's permits,
// ErrNever. If ctx is cancelled while it waits it returns ctx's error, and callers behind it move up. With an error it
// has taken nothing.
func (a *Allowance) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	return a.queue.acquire(ctx, n)
}

// TryAcquire takes n permits and returns true, after waiting for at most timeout. If the wait would be longer it
// returns false at once and takes nothing, as it does if n is less than 1 or above a period's permits.
func (a *Allowance) TryAcquire(n int64, timeout time.Duration) bool {
	return a.queue.tryAcquire(n, timeout)
}

// Reserve takes n permits of the first period that has them for new callers, without waiting for it. See [Reservation]
// for its guarantees. If n is above a period's permits it is not OK, with ErrNever.
func (a *Allowance) Reserve(n int64) Reservation { return a.queue.reserve(n) }

// Available returns the number of permits left in this period. While a caller waits, or holds a reservation for a later
// period, a new caller gets none of them.
func (a *Allowance) Available() int64 {
	l := &a.queue
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return 0
	}
	_, now := l.clock()
	l.grantDue(now)
	return max(0, a.rate.Permits-l.sched.advance(l.head, now).used)
}

// Rate returns the current rate.
func (a *Allowance) Rate() Rate {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	return a.rate
}

// SetRate changes permits and period at once. Permits taken in this period stay taken: of a higher number the rest is
// available at once. With another Per the period keeps its start and ends Per after it; if that is already past,
// periods of the new length are counted from that start up to now.
//
// Waiting callers keep their order and follow the new rate, which may make them late for their deadlines. Callers that
// want more than a period now has, or whose period would now come after 73 years, get ErrNever. Reservations keep their
// times, and callers behind one wait for it.
func (a *Allowance) SetRate(r Rate) error {
	if err := r.validate(); err != nil {
		return err
	}
	l := &a.queue
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
