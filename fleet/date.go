package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// # The date of a fleet
//
// Windows begin by a date, and hosts of which each goes by its own would count in different ones. So there is one date for
// all: that of a server, or the median of the hosts' own. Buckets do not go by it.
//
// It may turn out that this host has gone by another. Forward, the window ends early, and the next begins. Back, a window that
// has begun goes on until it ends by the new date: none is counted twice. Only one that would not begin for long, as the
// date was far ahead, is given up: its key is closed until the present window ends, of which nobody knows how much was
// counted.

// A Dater knows a date that is the same for all nodes that ask. An [Exchange] that is one keeps windows by it.
type Dater interface {
	// Date returns what the date was at some moment of the call.
	Date(ctx context.Context) (time.Time, error)
}

// MaxDateOff is by how much the date of a host may be off before that is told.
const MaxDateOff = time.Second

const (
	// dateEvery is how often the date is asked for, and dateAgain after how long again if there was no answer.
	dateEvery = time.Second
	dateAgain = 10 * time.Second
	// dateDrift is how fast two clocks may run apart: one in so many.
	dateDrift = 5000
)

// at returns a moment by the clock that keys of a plan go by.
func (p *plan) at(now moment, offset int64) int64 {
	switch {
	case p.leaks():
		return now.micros
	case p.limit.Staggered:
		return now.micros + now.ahead - offset
	case p.windowed():
		return now.micros + now.ahead
	default:
		return now.micros
	}
}

// redate moves a record whose window is far in the future, as the date was set back, to the one that is.
func (l *Ledger) redate(r *record, w int64, now moment) {
	at := r.at(now)
	r.window, r.ahead, r.askedAt, r.heardAt, r.emptyAt = w, now.ahead, at, at, at
	r.here = counter{}
	r.here.charge(r.plan, at, min(r.plan.Capacity(), headgate.MaxCount))
	if r.alone != nil {
		*r.alone = counter{}
	}
	r.owed, r.over, r.carried, r.before = 0, 0, 0, 0
	r.restart(now)
}

// setAhead has windows go by a date that is so much later than the clock's own.
func (l *Ledger) setAhead(d time.Duration) { l.ahead.Store(d.Microseconds()) }

// isOff reports whether a date is off by more than it may be. One that was so is until it has come nearer: it would be told again and
// again otherwise.
func isOff(off time.Duration, was bool) bool {
	if was {
		return off.Abs() >= MaxDateOff*9/10
	}
	return off.Abs() >= MaxDateOff
}

// date returns this host's own date at an uptime, since 1970.
func (l *Ledger) date(uptime time.Duration) time.Duration {
	return time.Duration(l.epoch)*time.Microsecond + l.began + uptime
}

// A dial estimates by how much another date is ahead of this host's. A date that was asked for was so at some moment between
// the question and the answer: that says what it is at the least and at the most. All that was ever asked is taken together,
// so that the fastest answer counts, and the estimate moves no further than it must.
type dial struct {
	least, most time.Duration
	at          time.Duration // by the clock, when that was so
	ahead       time.Duration
	set         bool
}

// read takes a date, since the clock was at 0, and when it was asked for and answered.
func (d *dial) read(date, asked, answered time.Duration) time.Duration {
	least, most := date-answered, date-asked
	if d.set {
		drift := (answered - d.at) / dateDrift
		if low, high := max(least, d.least-drift), min(most, d.most+drift); low <= high {
			least, most = low, high
		} else {
			d.set = false // it was moved, or is another's
		}
	}
	if !d.set {
		d.ahead = least + (most-least)/2
	}
	d.ahead = min(max(d.ahead, least), most)
	d.least, d.most, d.at, d.set = least, most, answered, true
	return d.ahead
}

// A calendar keeps the windows of a ledger by the date of a Dater.
type calendar struct {
	from     Dater // nil if there is none
	ledger   *Ledger
	deadline time.Duration
	tell     func(kind AsyncEventKind, off time.Duration)

	mu    sync.Mutex // held while it asks
	dial  dial
	next  time.Duration // by the clock: when to ask again
	told  bool          // that the date is off
	ahead atomic.Int64  // ns
}

func newCalendar(x Exchange, l *Ledger, deadline time.Duration, tell func(AsyncEvent)) *calendar {
	from, _ := x.(Dater)
	return &calendar{from: from, ledger: l, deadline: deadline, tell: func(kind AsyncEventKind, off time.Duration) {
		tell(AsyncEvent{Kind: kind, Off: off})
	}}
}

// turn asks for the date if it is time to.
func (c *calendar) turn(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == nil || c.ledger.options.Clock.Now() < c.next {
		return
	}
	_ = c.ask(ctx) // it is asked again
}

// askNow asks for the date.
func (c *calendar) askNow(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == nil {
		return nil
	}
	return c.ask(ctx)
}

// known reports whether the date is.
func (c *calendar) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dial.set
}

func (c *calendar) ask(ctx context.Context) error {
	clock := c.ledger.options.Clock
	ctx, done := within(ctx, clock, c.deadline)
	defer done()
	asked := clock.Now()
	date, err := c.from.Date(ctx)
	answered := clock.Now()
	if err != nil {
		c.next = answered + dateAgain
		return err
	}
	c.next = answered + dateEvery
	ahead := c.dial.read(date.Sub(c.ledger.options.Epoch), asked, answered)
	c.ledger.setAhead(ahead)
	c.ahead.Store(int64(ahead))
	if off := isOff(ahead, c.told); off != c.told {
		c.told = off
		kind := DateRight
		if off {
			kind = DateOff
		}
		c.tell(kind, -ahead)
	}
	return nil
}
