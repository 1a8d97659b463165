package pacer

import (
	"context"
	"math/big"
	"time"
)

// NoBurst as MaxBurst makes a [Bursty] pacer save nothing: the times for which it schedules permits are never
// closer together than the rate says. See there for what that means to callers who are late.
const NoBurst int64 = -1

// Bursty hands out permits at a steady rate and saves those that nobody asks for, up to a bound, for a burst later on.
// Saved permits cost nothing. Others cost their interval, and the next caller pays: whoever finds the pacer idle goes at
// once, however many permits it takes, and those behind it wait until they are paid off. In any length of time t the
// permits scheduled are at most MaxBurst + rate·t and the last caller's own.
//
// The schedule is what is exact. Callers who are overdue, because the machine or the process stood still for a while, are
// not delayed further and all go together, however many they are.
//
// It starts with nothing saved. Most callers want [Bursty.Acquire]. The methods of the zero Bursty return
// ErrUninitialized or false. It is safe for concurrent use, and serves callers in the order in which they come.
type Bursty struct {
	line    line
	options BurstyOptions
}

var _ Pacer = (*Bursty)(nil)

// BurstyOptions are the options of [NewBursty].
type BurstyOptions struct {
	// Rate is how fast permits come. There is no default.
	Rate Rate
	// MaxBurst is how many unused permits are saved. The default, 0, is one second's worth at the rate, whatever the rate
	// is set to later, even if that is a fraction of a permit. [NoBurst] saves none.
	MaxBurst int64
}

// NewBursty returns a pacer that has saved nothing yet.
func NewBursty(o BurstyOptions) (*Bursty, error) {
	sched, err := o.bucket()
	if err != nil {
		return nil, err
	}
	return &Bursty{line: line{epoch: time.Now(), sched: sched}, options: o}, nil
}

func (o BurstyOptions) bucket() (*bucket, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	b := newBucket(o.Rate)
	switch {
	case o.MaxBurst == NoBurst:
	case o.MaxBurst == 0:
		b.room = span{ns: int64(time.Second)}
	case o.MaxBurst < 0:
		return nil, badOption("MaxBurst", decimal(o.MaxBurst), "a number of permits, 0 for one second's worth, or NoBurst")
	default:
		if b.room = b.roomFor(o.MaxBurst); b.room.ns >= farFuture {
			return nil, badOption("MaxBurst", decimal(o.MaxBurst),
				"what "+o.Rate.String()+" makes in less than 73 years")
		}
	}
	return &b, nil
}

// Acquire takes n permits, waiting in line until the permits before them are paid off. It returns how long it waited.
//
// If ctx has a deadline before the wait would end it returns a [*DeadlineError] at once. If ctx is cancelled while it
// waits it returns ctx's error, and those behind it move up. With an error it has taken nothing.
func (b *Bursty) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	return b.line.acquire(ctx, n)
}

// TryAcquire takes n permits and returns true, waiting in line for at most timeout. If the wait would be longer it returns
// false at once and takes nothing, as it does if n is less than 1.
func (b *Bursty) TryAcquire(n int64, timeout time.Duration) bool {
	return b.line.tryAcquire(n, timeout)
}

// Reserve takes n permits for the time when they are due, and doesn't wait for it. See [Reservation] for what is promised.
func (b *Bursty) Reserve(n int64) Reservation { return b.line.reserve(n) }

// Rate returns the rate that is in force.
func (b *Bursty) Rate() Rate {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	return b.options.Rate
}

// SetRate changes the rate at once. What was already taken is paid off at the old rate, so the first in line waits as
// long as before. Those behind it are priced anew and go by the new rate, which may make them late for their deadlines;
// whoever could now only be paid off after 73 years is sent away with ErrNever.
//
// Reservations keep their times, and callers behind one wait for it even if a higher rate leaves the pacer idle until
// then. They cost what the new rate says, or nothing if it could not pay them off in 73 years.
//
// Of saved permits, as many stay saved if MaxBurst was given, and as many seconds' worth if it was not.
func (b *Bursty) SetRate(r Rate) error {
	l := &b.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return ErrUninitialized
	}
	options := b.options
	options.Rate = r
	to, err := options.bucket()
	if err != nil {
		return err
	}
	from := l.sched.(*bucket)
	b.options = options
	_, now := l.clock()
	l.reschedule(now, to, 0, func(s state) state {
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

// convert returns the idle time that is worth as many permits in another bucket, rounded down.
func (b *bucket) convert(s span, to *bucket) span {
	parts := new(big.Int).SetInt64(s.ns)
	parts.Mul(parts, new(big.Int).SetUint64(b.den))
	parts.Add(parts, new(big.Int).SetUint64(s.frac))
	parts.Mul(parts, new(big.Int).SetUint64(to.perPermit))
	parts.Div(parts, new(big.Int).SetUint64(b.perPermit))
	ns, frac := parts.DivMod(parts, new(big.Int).SetUint64(to.den), new(big.Int))
	return span{ns: ns.Int64(), frac: frac.Uint64()}
}
