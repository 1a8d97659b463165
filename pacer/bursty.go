package pacer

import (
	"math/big"
	"time"
)

// NoBurst is the MaxBurst of a [Bursty] pacer that saves no permits. It never schedules permits closer together than
// the rate.
const NoBurst int64 = -1

// Bursty hands out permits at a steady rate and saves unused permits, up to a bound, for a later burst. Saved permits
// are free. Every other permit costs one interval of the rate, for which the next caller waits. So a caller of an idle
// pacer passes immediately, however many permits it takes, and callers behind it wait until these permits are paid off.
// In any time t, at most MaxBurst + rate·t permits are scheduled, plus those of the last caller.
//
// Only the schedule is exact. If the machine or the process stops for a while, all callers whose time passes meanwhile
// are admitted together afterwards.
//
// A new Bursty has no saved permits. Most callers want [Bursty.Acquire]. The methods of the zero Bursty return
// ErrUninitialized or false. It is safe for concurrent use, and serves callers in order of arrival.
type Bursty struct {
	callerQueue
	options BurstyOptions
}

var _ Pacer = (*Bursty)(nil)

// BurstyOptions are the options of [NewBursty].
type BurstyOptions struct {
	// Rate is the rate of permits. There is no default.
	Rate Rate
	// MaxBurst is the largest number of unused permits that are saved. The default, 0, saves the permits of one second,
	// even if that is a fraction of a permit. [NoBurst] saves none.
	MaxBurst int64
}

// NewBursty returns a pacer without saved permits.
func NewBursty(o BurstyOptions) (*Bursty, error) {
	sched, err := o.bucket()
	if err != nil {
		return nil, err
	}
	return &Bursty{callerQueue: callerQueue{epoch: time.Now(), sched: sched}, options: o}, nil
}

func (o BurstyOptions) bucket() (*bucket, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	b := newBucket(o.Rate)
	switch {
	case o.MaxBurst == NoBurst:
	case o.MaxBurst == 0:
		b.maxSaved = span{ns: int64(time.Second)}
	case o.MaxBurst < 0:
		return nil, badOption("MaxBurst", decimal(o.MaxBurst), "a number of permits, 0 for one second's worth, or NoBurst")
	default:
		if b.maxSaved = b.timeFor(o.MaxBurst); b.maxSaved.ns >= farFuture {
			return nil, badOption("MaxBurst", decimal(o.MaxBurst),
				"the permits of less than 73 years at "+o.Rate.String())
		}
	}
	return &b, nil
}

// Rate returns the current rate.
func (b *Bursty) Rate() Rate {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.options.Rate
}

// SetRate changes the rate immediately. Permits that were already taken are paid off at the old rate, so the first
// waiting caller waits as long as before. Callers behind it follow the new rate, so they may miss their deadlines.
// Callers whose permits could only be paid off after 73 years get ErrNever.
//
// Reservations keep their times, and callers behind a reservation wait for it even if a higher rate leaves the pacer
// idle until then. Permits of a reservation cost the new interval, or nothing if they could not be paid off in 73
// years.
//
// If MaxBurst is set, the number of saved permits stays the same; otherwise the saved time stays the same.
func (b *Bursty) SetRate(r Rate) error {
	q := &b.callerQueue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sched == nil {
		return ErrUninitialized
	}
	options := b.options
	options.Rate = r
	to, err := options.bucket()
	if err != nil {
		return err
	}
	from := q.sched.(*bucket)
	b.options = options
	_, now := q.clock()
	q.reschedule(now, to, 0, func(s state) state {
		// Fractions of a nanosecond have the denominator of the rate, so they cannot stay.
		s.free = span{ns: s.free.ceil()}
		if options.MaxBurst == 0 {
			s.saved.frac = 0
		} else {
			s.saved = from.convert(s.saved, to)
		}
		return s
	})
	return nil
}

// convert returns the idle time that pays for as many permits in the bucket to as s does in b, rounded down.
func (b *bucket) convert(s span, to *bucket) span {
	parts := new(big.Int).SetInt64(s.ns)
	parts.Mul(parts, new(big.Int).SetUint64(b.denominator))
	parts.Add(parts, new(big.Int).SetUint64(s.frac))
	parts.Mul(parts, new(big.Int).SetUint64(to.perPermit))
	parts.Div(parts, new(big.Int).SetUint64(b.perPermit))
	ns, frac := parts.DivMod(parts, new(big.Int).SetUint64(to.denominator), new(big.Int))
	return span{ns: ns.Int64(), frac: frac.Uint64()}
}
