package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

var _ headgate.Limiter = (*Async)(nil)

// An Exchange is where nodes leave notes for each other: each has one note a key, which replaces the one before. One is in
// Redis (redisstore.Board).
type Exchange interface {
	// Exchange leaves this node's notes under keys, of 16 bytes each, and calls heard for the notes that others left under
	// the same keys: key is its index among keys, age for how long the note has been there. An empty note leaves what is
	// there. Notes that heard was called with before may be left out, unless all is set for the key. A note may be forgotten
	// when nobody has left one under its key for as long as keep says. Without keys, it finds out whether there is anybody: err
	// is nil only if there is.
	//
	// missed are the indices of keys whose notes may not have been left, and err says why. Keys of one of the Groups are kept
	// together, so that they are missed together. An error that has a method
	// Foreign() bool, and that returns true, tells that somebody else leaves notes there who does not belong to us.
	Exchange(ctx context.Context, keys, notes []string, keep []time.Duration, all []bool,
		heard func(key int, author, note string, age time.Duration)) (missed []int, err error)
}

// A Forgetful exchange knows when it has lost its notes, as a Redis does that starts again without its data.
type Forgetful interface {
	// Lost returns of which Groups of keys notes were lost, as far as exchanges since it was last called have shown, one bit each.
	// They are left again then.
	Lost() uint64
}

// Async decides by this node's own counters, and tells other nodes, and hears from them, what was consumed: some times in
// every interval, for the keys that were asked for, through an [Exchange]. No decision on a key that is in use waits for that.
//
// # Keys that are new to this node
//
// Consumption that is older than S, as defined below, counts in full from this node's second decision on a key. The first
// decision on a key that is new here, or was left alone for an interval, goes by what this node knows. It does not wait, but for
// a peek at a key that is new. Later decisions that this node's own counter would allow wait for a lookup, 250 ms at most.
// Lookups of several keys are one exchange, and at most 4,096 decisions wait at once; others, and all while the exchange fails,
// go by this node's own counter and are counted in LedgerStats.LookupsDropped.
//
// # What can slip through
//
// What others consumed is known after S = interval + 2 delays at the latest, where a delay is the way to the exchange.
// N nodes with a burst of R and a rate of r can let pass at most (N−1)(R+rS) too much before they know. If λ is the most
// that arrives in any S, and it is twice the rate or more, it is at most (λ−r)S; if it is less, it is at most what others
// let pass within S, which is below λS. It is a debt, and no node lets anything pass until it is repaid; what was too much in a
// fixed window counts in the next one. So in the long run no more passes than the limit, but under sliding-window, where a debt
// fades with its window. Each node exchanges four times in an interval, so that news is not older
// than half of one and two delays as a rule; the rest is for calls that are late. LedgerOptions.LocalCap bounds what one
// node can do alone.
//
// # When the exchange is away
//
// Nodes go on deciding by themselves, and tell what they consumed when it is back. After a few intervals without an answer
// the checks' policies apply; see [Ledger.SetAway]. If only a part of it is away, as one server of a cluster, they apply to
// the keys that are kept there. An exchange that loses all its notes loses nothing that matters: each
// node remembers what it heard, and totals go on; and if it is [Forgetful], nodes leave again what others may not have heard.
//
// # Windows
//
// They begin by the date of the exchange, if it is a [Dater]: hosts' own dates do not matter, and one that is off by more than
// MaxDateOff is told of.
type Async struct {
	byLedger
	exchange Exchange
	options  AsyncOptions
	clock    Clock
	rounds   rounds
	calendar *calendar

	batch batch
	parts parts
	began time.Duration // by the clock: when the latest exchange was
	last  time.Duration // by the clock: when an exchange last succeeded
	since time.Duration // by the clock: when they began to fail; 0 while they don't

	strangers strangers

	counters asyncCounters
}

// AsyncOptions are the settings of an Async. Name must be given.
type AsyncOptions struct {
	// Name is this node's, which no other has. At most 64 bytes.
	Name string
	// Incarnation tells this life of the node from others: no two have the same. Default by chance, once for these options.
	Incarnation uint64
	// Interval is how old what is known of other nodes may be. 10 ms to 20 s. Default DefaultAsyncInterval.
	Interval time.Duration
	// MaxKeys is how many keys are exchanged at once, four times in an interval; others wait, the hottest first. Default
	// DefaultAsyncKeys.
	MaxKeys int
	// Deadline is how long one exchange may take. Default an interval, and 100 ms to 2 s.
	Deadline time.Duration
	// Missed is after how many intervals without an exchange policies apply. Default 5.
	Missed int
	// Rand returns a number below n by chance; it spreads exchanges, so that nodes don't all come at once. Default
	// math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is told when the exchange is away, back, used by others, or garbled. It must not block. Default is to log.
	OnEvent func(AsyncEvent)
}

// What the options are unless told otherwise.
const (
	DefaultAsyncInterval = 100 * time.Millisecond
	DefaultAsyncKeys     = 4096
)

const (
	minInterval, maxInterval = 10 * time.Millisecond, 20 * time.Second
	minDeadline, maxDeadline = 100 * time.Millisecond, 2 * time.Second
	maxAsyncKeys             = 1 << 16
	defaultMissed            = 5
	maxName                  = 64
	// perInterval is how often nodes exchange in an interval. News waits for the next exchange of who has it, and then for
	// the next of who gets it.
	perInterval = 4
)

func (o *AsyncOptions) validate() error {
	o.Author() // draws an incarnation if there is none
	if o.Interval == 0 {
		o.Interval = DefaultAsyncInterval
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultAsyncKeys
	}
	if o.Deadline == 0 {
		o.Deadline = min(max(o.Interval, minDeadline), maxDeadline)
	}
	if o.Missed == 0 {
		o.Missed = defaultMissed
	}
	if o.Rand == nil {
		o.Rand = rand.Int64N
	}
	if o.OnEvent == nil {
		o.OnEvent = logAsync
	}
	switch {
	case o.Name == "" || len(o.Name) > maxName:
		return fmt.Errorf("fleet: AsyncOptions.Name %q: want a name of at most %d bytes that no other node has", o.Name[:min(len(o.Name), maxName)], maxName)
	case o.Interval < minInterval || o.Interval > maxInterval:
		return fmt.Errorf("fleet: AsyncOptions.Interval %v: want %v to %v, or 0 for %v", o.Interval, minInterval, maxInterval, DefaultAsyncInterval)
	case o.MaxKeys < 1 || o.MaxKeys > maxAsyncKeys:
		return fmt.Errorf("fleet: AsyncOptions.MaxKeys %d: want 1 to %d, or 0 for %d", o.MaxKeys, maxAsyncKeys, DefaultAsyncKeys)
	case o.Deadline < time.Millisecond:
		return fmt.Errorf("fleet: AsyncOptions.Deadline %v: want at least 1ms, or 0 for an interval", o.Deadline)
	case o.Missed < 1:
		return fmt.Errorf("fleet: AsyncOptions.Missed %d: want at least 1, or 0 for %d", o.Missed, defaultMissed)
	}
	return nil
}

var errNoExchange = errors.New("fleet: NewAsync: no Exchange: want one, such as a redisstore.Board")

// NewAsync returns a limiter that shares its counters through an exchange, and begins to. Close ends that.
func NewAsync(lo LedgerOptions, x Exchange, o AsyncOptions) (*Async, error) {
	if x == nil {
		return nil, errNoExchange
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	lo.Asks = true
	if lo.Lag == 0 {
		lo.Lag = 2 * o.Interval
	}
	if lo.Idle == 0 {
		lo.Idle = max(DefaultIdle, 4*lo.Lag)
	}
	l, err := NewLedger(lo)
	if err != nil {
		return nil, err
	}
	a := &Async{byLedger: byLedger{l}, exchange: x, options: o, clock: l.options.Clock, strangers: strangers{tell: o.OnEvent}}
	a.last = a.clock.Now()
	a.calendar = newCalendar(x, l, o.Deadline, o.OnEvent)
	l.startLearning(a.rounds.hurry)
	a.rounds.begin(a.clock, spread(o.Interval, o.Rand), a.turn)
	return a, nil
}

// AskDate asks the exchange for its date, as is done now and then anyway: who does so before the first decision sees to it that
// no window goes by the host's own.
func (a *Async) AskDate(ctx context.Context) error { return a.calendar.askNow(ctx) }

// Author returns what stands before a node's notes in an exchange: its incarnation, which is drawn if there is none, and its
// name.
func (o *AsyncOptions) Author() string {
	if o.Incarnation == 0 {
		o.Incarnation = rand.Uint64() | 1
	}
	return authorOf(Peer{Name: o.Name, Incarnation: o.Incarnation})
}

// Close tells the other nodes what they don't know yet, as long as ctx lasts, and ends what NewAsync began. The exchange
// is the caller's to close.
func (a *Async) Close(ctx context.Context) error {
	return a.rounds.finish(ctx, func(ctx context.Context) (bool, error) { return a.round(ctx, false) }, a.ledger)
}

// turn makes one exchange if there is something to tell, or to find out: whether the exchange is there matters to who comes
// next, however long nobody has.
func (a *Async) turn(ctx context.Context, early bool) {
	if early {
		_, _ = a.round(ctx, early) // what fails is told, and told again
		return
	}
	if a.last >= a.began { // it answers, as far as is known
		a.calendar.turn(ctx)
	}
	_, _ = a.round(ctx, early)
	if len(a.batch.tallies) == 0 && a.clock.Now()-a.began >= a.patience() {
		_ = a.meet(ctx)
	}
}

// patience is for how long there may be no exchange: so that one that does not answer is noticed in time.
func (a *Async) patience() time.Duration {
	if a.last < a.began { // the latest has failed
		return a.options.Interval
	}
	return max(a.options.Interval, a.options.Interval*time.Duration(a.options.Missed)/2)
}

// round makes one exchange, unless there is nothing to tell. It says whether there may be more.
func (a *Async) round(ctx context.Context, early bool) (more bool, err error) {
	a.batch.fill(a.ledger, a.options.MaxKeys, early)
	full := len(a.batch.tallies) == a.options.MaxKeys
	if !early {
		a.parts.ask(&a.batch)
	}
	if len(a.batch.tallies) == 0 {
		return false, nil
	}
	return full, a.meet(ctx)
}

// meet makes an exchange of what is in the batch.
func (a *Async) meet(ctx context.Context) error {
	b := &a.batch
	ctx, done := within(ctx, a.clock, a.options.Deadline)
	defer done()
	a.began = a.clock.Now()
	missed, err := a.exchange.Exchange(ctx, b.keys, b.notes, b.keep, b.all, a.hear)
	a.counters.exchanges.Add(1)
	a.counters.sent.Add(int64(len(b.tallies) - len(missed)))
	a.counters.trip.Store(int64(a.clock.Now() - a.began))
	a.settle(missed, err)
	if f, ok := a.exchange.(Forgetful); ok {
		a.ledger.retellAll(f.Lost())
	}
	return err
}

// hear absorbs a note of another node.
func (a *Async) hear(key int, author, note string, age time.Duration) {
	from, ok := peerOf(author)
	if ok && from.Name == a.options.Name && from.Incarnation == a.options.Incarnation {
		return
	}
	var t [1]Tally
	uptime, read := readNote(note, &t[0])
	if !ok || !read || key < 0 || key >= len(a.batch.tallies) {
		a.counters.garbled.Add(1)
		a.strangers.garbled(a.clock.Now(), author)
		return
	}
	a.counters.heard.Add(1)
	// It took a while to get there, and to come here: no longer than this exchange, as a rule.
	ours := &a.batch.tallies[key]
	t[0].Key, t[0].Age = ours.Key, max(0, age)+a.clock.Now()-a.began
	t[0].sent, t[0].bounded = ours.sent, true // it was there before what this exchange leaves
	a.ledger.Absorb(from, uptime, t[:])
}

// settle draws the consequences of an exchange.
func (a *Async) settle(missed []int, err error) {
	now := a.clock.Now()
	var f interface{ Foreign() bool }
	if errors.As(err, &f) && f.Foreign() {
		a.counters.foreign.Add(1)
		a.strangers.areForeign(now, err)
		err = nil
	}
	if len(missed) > 0 || err != nil {
		a.counters.failures.Add(1)
		a.ledger.Retell(a.batch.pick(missed))
	}
	a.ledger.answered(a.batch.tallies, missed)
	patience := time.Duration(a.options.Missed) * a.options.Interval
	was := a.parts.cut
	a.parts.note(a.batch.tallies, missed, a.began, now, patience)
	if cut := a.parts.cut; cut|was != 0 {
		a.ledger.setCut(cut, a.options.Interval)
		a.counters.cut.Store(int64(bits.OnesCount64(cut)))
	}
	if len(missed) < len(a.batch.tallies) || len(a.batch.tallies) == 0 && err == nil {
		if a.since != 0 {
			a.ledger.SetAway(false, 0)
			a.options.OnEvent(AsyncEvent{Kind: ExchangeBack, Down: now - a.since})
			a.since = 0
			a.counters.away.Store(false)
		}
		a.last = now
		a.tellParts(err, now)
		return
	}
	if silent := now - a.last; silent >= patience {
		a.ledger.SetAway(true, a.options.Interval)
		if a.since == 0 {
			a.since = max(1, a.last)
			a.counters.away.Store(true)
			a.options.OnEvent(AsyncEvent{Kind: ExchangeAway, Err: err})
		}
	}
}

// tellParts tells that a part of the exchange is away, or none is any more.
func (a *Async) tellParts(err error, now time.Duration) {
	p := &a.parts
	switch cut := p.cut != 0; {
	case cut && !p.told:
		p.told, p.toldAt = true, now
		a.options.OnEvent(AsyncEvent{Kind: ExchangePartAway, Err: err})
	case !cut && p.told:
		p.told = false
		a.options.OnEvent(AsyncEvent{Kind: ExchangePartBack, Down: now - p.toldAt})
	}
}

type asyncCounters struct {
	exchanges, failures, sent, heard, garbled, foreign, trip atomic.Int64
	cut                                                      atomic.Int64
	away                                                     atomic.Bool
}

// AsyncStats are the figures of an Async.
type AsyncStats struct {
	LedgerStats
	// Exchanges is how many exchanges were made, and Failures how many of them failed, if only for some keys.
	Exchanges, Failures int64
	// Sent is how many tallies were told, and Heard how many.
	Sent, Heard int64
	// Garbled is how many notes made no sense.
	Garbled int64
	// Foreign is how many exchanges met notes of another fleet.
	Foreign int64
	// RoundTrip is how long the latest exchange took.
	RoundTrip time.Duration
	// Away tells that the exchange has not answered for so long that policies apply.
	Away bool
	// Cut is of how many of the Groups of keys this is so, if not of all.
	Cut int
	// Ahead is by how much the date of the fleet is ahead of this host's.
	Ahead time.Duration
}

// Stats returns the figures as they are now.
func (a *Async) Stats() AsyncStats { return a.counters.stats(a.ledger, a.calendar) }

func (c *asyncCounters) stats(l *Ledger, dates *calendar) AsyncStats {
	return AsyncStats{
		LedgerStats: l.Stats(),
		Exchanges:   c.exchanges.Load(), Failures: c.failures.Load(),
		Sent: c.sent.Load(), Heard: c.heard.Load(), Garbled: c.garbled.Load(), Foreign: c.foreign.Load(),
		RoundTrip: time.Duration(c.trip.Load()), Away: c.away.Load(), Cut: int(c.cut.Load()),
		Ahead: time.Duration(dates.ahead.Load()),
	}
}
