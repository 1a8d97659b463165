package pacer

import (
	"time"
)

// Allowance is a semaphore that is refreshed periodically. Each period has a number of permits. Unused permits expire
// when their period ends. All permits of a period may be taken together, so twice as many can pass in a short time
// around the border of two periods; [Bursty] avoids this.
//
// If too few permits are left, callers wait for a later period. They are served strictly in order: a caller that wants
// many permits is not overtaken by callers that want few. The first period starts when the Allowance is created.
//
// Most callers want [Allowance.Acquire]. It takes all n permits from one period, so n is at most a period's permits. An
// Allowance has no goroutine and need not be closed. The methods of the zero Allowance return ErrUninitialized or
// false. It is safe for concurrent use.
type Allowance struct {
	callerQueue
	rate Rate
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
	return &Allowance{
		callerQueue: callerQueue{epoch: time.Now(), sched: sched, maxPermits: sched.limit},
		rate:        o.Rate,
	}, nil
}

// Available returns the number of permits left in this period. While a caller waits, or holds a reservation for a later
// period, a new caller gets none of them.
func (a *Allowance) Available() int64 {
	return a.evaluate(func(now int64) int64 { return max(0, a.rate.Permits-a.sched.advance(a.headState, now).used) })
}

// Rate returns the current rate.
func (a *Allowance) Rate() Rate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rate
}

// SetRate changes the number of permits and the period at once. Permits that were taken in this period stay taken. If
// the number of permits rises, the additional ones are available immediately. If the period changes, the current period
// keeps its start; periods of the new length are counted from this start.
//
// Waiting callers keep their order and follow the new rate, so they may miss their deadlines. Callers that want more
// permits than a period now has, or whose period would now come after 73 years, get ErrNever. Reservations keep their
// times, and callers behind a reservation wait for it.
func (a *Allowance) SetRate(r Rate) error {
	if err := r.validate(); err != nil {
		return err
	}
	q := &a.callerQueue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sched == nil {
		return ErrUninitialized
	}
	a.rate = r
	_, now := q.clock()
	sched := &window{period: int64(r.Per), limit: r.Permits}
	q.reschedule(now, sched, sched.limit, func(s state) state { return s })
	return nil
}
