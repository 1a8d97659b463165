package pacer

import (
	"context"
	"math"
	"strconv"
	"time"
)

// WarmingUp hands out permits at a steady rate that it reaches only after a warm-up: for what is behind it needs time to
// be fast, to fill its caches or open its connections. Cold, permits come ColdFactor times as slowly as at the rate.
// Under load the interval shrinks in a straight line, and is that of the rate when the warm-up period has passed. Without
// load the pacer cools down, by as much time as it idles. It is cold again after the warm-up period at the latest: that
// is from as warm as it gets, after a long load. One that has only just become warm gets cold sooner, with the default
// ColdFactor after half of that period.
//
// Like with [Bursty] the next caller pays. But nothing is free: a permit costs the more the colder the pacer is, and
// never less than the interval of the rate.
//
// It starts cold. Most callers want [WarmingUp.Acquire]. The methods of the zero WarmingUp return ErrUninitialized or
// false. It is safe for concurrent use, and serves callers in the order in which they come.
type WarmingUp struct {
	line    line
	options WarmingUpOptions
}

var _ Pacer = (*WarmingUp)(nil)

// WarmingUpOptions are the options of [NewWarmingUp].
type WarmingUpOptions struct {
	// Rate is how fast permits come once the pacer is warm. There is no default.
	Rate Rate
	// WarmUp is how long it takes under load to get from cold to warm, and the longest that it takes idle to get from warm
	// to cold. There is no default.
	WarmUp time.Duration
	// ColdFactor is how many times longer the interval is when the pacer is cold: from 1 to 1000, with at most two
	// decimals. The default, 0, is 3.
	ColdFactor float64
}

// NewWarmingUp returns a pacer that is cold.
func NewWarmingUp(o WarmingUpOptions) (*WarmingUp, error) {
	if o.ColdFactor == 0 {
		o.ColdFactor = 3
	}
	sched, err := o.warmth()
	if err != nil {
		return nil, err
	}
	w := &WarmingUp{line: line{epoch: time.Now(), sched: sched}, options: o}
	w.line.head.saved = sched.room
	return w, nil
}

func (o WarmingUpOptions) warmth() (*warmth, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	if o.WarmUp < 1 {
		return nil, badOption("WarmUp", o.WarmUp.String(), "a positive duration; Bursty has no warm-up")
	}
	hundredths := math.Round(o.ColdFactor * 100)
	if !(o.ColdFactor >= 1 && o.ColdFactor <= 1000) || math.Abs(o.ColdFactor*100-hundredths) > 1e-6 {
		return nil, badOption("ColdFactor", strconv.FormatFloat(o.ColdFactor, 'g', -1, 64),
			"a number from 1 to 1000 with at most two decimals, such as 3")
	}
	w, ok := newWarmth(o.Rate, o.WarmUp, uint64(hundredths))
	if !ok {
		return nil, badOption("WarmUp", o.WarmUp.String(),
			"a shorter one, a Rate of smaller numbers than "+o.Rate.String()+", or a ColdFactor with fewer digits")
	}
	return w, nil
}

// Acquire takes n permits, waiting in line until the permits before them are paid off. It returns how long it waited.
//
// If ctx has a deadline before the wait would end it returns a [*DeadlineError] at once. If ctx is cancelled while it
// waits it returns ctx's error, and those behind it move up. With an error it has taken nothing.
func (w *WarmingUp) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	return w.line.acquire(ctx, n)
}

// TryAcquire takes n permits and returns true, waiting in line for at most timeout. If the wait would be longer it returns
// false at once and takes nothing, as it does if n is less than 1.
func (w *WarmingUp) TryAcquire(n int64, timeout time.Duration) bool {
	return w.line.tryAcquire(n, timeout)
}

// Reserve takes n permits for the time when they are due, and doesn't wait for it. See [Reservation] for what is promised.
func (w *WarmingUp) Reserve(n int64) Reservation { return w.line.reserve(n) }

// Rate returns the rate of the warm pacer that is in force.
func (w *WarmingUp) Rate() Rate {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	return w.options.Rate
}

// SetRate changes the rate at once. What was already taken is paid off at the old rate, so the first in line waits as
// long as before. Those behind it are priced anew and go by the new rate, which may make them late for their deadlines;
// whoever could now only be paid off after 73 years is sent away with ErrNever.
//
// Reservations keep their times, and callers behind one wait for it even if a higher rate leaves the pacer idle until
// then. They cost what the new rate says, or nothing if it could not pay them off in 73 years.
//
// The pacer stays as warm as it is.
func (w *WarmingUp) SetRate(r Rate) error {
	l := &w.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return ErrUninitialized
	}
	options := w.options
	options.Rate = r
	to, err := options.warmth()
	if err != nil {
		return err
	}
	w.options = options
	_, now := l.clock()
	l.reschedule(now, to, 0, func(s state) state {
		s.free = span{ns: s.free.ceil()}
		s.saved.frac = 0
		return s
	})
	return nil
}
