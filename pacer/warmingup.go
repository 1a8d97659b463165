package pacer

import (
	"math"
	"strconv"
	"time"
)

// WarmingUp hands out permits at a rate that rises during a warm-up period, for a service that needs time to fill its
// caches or open its connections. When the pacer is cold, the interval between permits is ColdFactor times the interval
// of the rate. Under load the interval shrinks linearly, and reaches that of the rate after the warm-up period. While
// the pacer is idle it cools down, and is cold again after the warm-up period at the latest. A pacer that has only just
// become warm cools sooner: with the default ColdFactor, after half of that period.
//
// As with [Bursty], a caller waits for the permits of the caller before it. But idle time does not make permits free:
// the colder the pacer is, the more time a permit costs, and never less than the interval of the rate.
//
// A new WarmingUp is cold. Most callers want [WarmingUp.Acquire]. The methods of the zero WarmingUp return
// ErrUninitialized or false. It is safe for concurrent use, and serves callers in order of arrival.
type WarmingUp struct {
	callerQueue
	options WarmingUpOptions
}

var _ Pacer = (*WarmingUp)(nil)

// WarmingUpOptions are the options of [NewWarmingUp].
type WarmingUpOptions struct {
	// Rate is the rate of permits once the pacer is warm. There is no default.
	Rate Rate
	// WarmUp is the time in which the pacer becomes warm under load, and the longest idle time in which it becomes cold.
	// There is no default.
	WarmUp time.Duration
	// ColdFactor is the interval of a cold pacer divided by that of a warm one: 1 to 1000, with at most two decimals. The
	// default is 3.
	ColdFactor float64
}

// NewWarmingUp returns a cold pacer.
func NewWarmingUp(o WarmingUpOptions) (*WarmingUp, error) {
	if o.ColdFactor == 0 {
		o.ColdFactor = 3
	}
	sched, err := o.schedule()
	if err != nil {
		return nil, err
	}
	w := &WarmingUp{callerQueue: callerQueue{epoch: time.Now(), sched: sched}, options: o}
	w.headState.saved = sched.maxSaved
	return w, nil
}

func (o WarmingUpOptions) schedule() (*warmUpSchedule, error) {
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
	w, ok := newWarmUpSchedule(o.Rate, o.WarmUp, uint64(hundredths))
	if !ok {
		return nil, badOption("WarmUp", o.WarmUp.String(),
			"a shorter one, a Rate of smaller numbers than "+o.Rate.String()+", or a ColdFactor with fewer digits")
	}
	return w, nil
}

// Rate returns the current rate of the warm pacer.
func (w *WarmingUp) Rate() Rate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.options.Rate
}

// SetRate changes the rate immediately. Permits that were already taken are paid off at the old rate, so the first
// waiting caller waits as long as before. Callers behind it follow the new rate, so they may miss their deadlines.
// Callers whose permits could only be paid off after 73 years get ErrNever.
//
// Reservations keep their times, and callers behind a reservation wait for it even if a higher rate leaves the pacer
// idle until then. Permits of a reservation cost the new interval, or nothing if they could not be paid off in 73
// years.
//
// The pacer stays as warm as it is.
func (w *WarmingUp) SetRate(r Rate) error {
	q := &w.callerQueue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sched == nil {
		return ErrUninitialized
	}
	options := w.options
	options.Rate = r
	to, err := options.schedule()
	if err != nil {
		return err
	}
	w.options = options
	_, now := q.clock()
	q.reschedule(now, to, 0, func(s state) state {
		s.free = span{ns: s.free.ceil()}
		s.saved.frac = 0
		return s
	})
	return nil
}
