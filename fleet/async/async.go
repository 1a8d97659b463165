package async

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/exchange"
	"github.com/headgate/headgate/fleet/internal/ledger"
	"github.com/headgate/headgate/fleet/internal/rounds"
	"github.com/headgate/headgate/fleet/internal/skew"
)

var _ headgate.Limiter = (*Limiter)(nil)

// Limiter decides by this node's own counters, and tells other nodes, and hears from them, what was consumed: some times in
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
type Limiter struct {
	ledger.Decider
	ledger    *ledger.Ledger
	exchange  fleet.Exchange
	self      fleet.Peer
	settings  exchange.Settings
	clock     fleet.Clock
	rounds    rounds.Loop
	clockSkew *skew.Tracker

	batch exchange.Batch
	parts parts
	began time.Duration // by the clock: when the latest exchange was
	last  time.Duration // by the clock: when an exchange last succeeded
	since time.Duration // by the clock: when they began to fail; 0 while they don't

	warnings exchange.Warnings

	counters exchange.Counters
}

// Options are the settings of an Async. Name must be given.
type Options struct {
	// Name is this node's, which no other has. At most 64 bytes.
	Name string
	// Incarnation tells this life of the node from others: no two have the same. Default by chance, once for these options.
	Incarnation uint64
	// Interval is how old what is known of other nodes may be. 10 ms to 20 s. Default DefaultAsyncInterval.
	Interval time.Duration
	// MaxKeys is how many keys are exchanged at once, four times in an interval; others wait, the hottest first. Default
	// exchange.DefaultMaxKeys.
	MaxKeys int
	// Deadline is how long one exchange may take. Default an interval, and 100 ms to 2 s.
	Deadline time.Duration
	// Missed is after how many intervals without an exchange policies apply. Default 5.
	Missed int
	// Rand returns a number below n by chance; it spreads exchanges, so that nodes don't all come at once. Default
	// math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is told when the exchange is away, back, used by others, or garbled. It must not block. Default is to log.
	OnEvent func(fleet.Event)
}

// DefaultInterval is the default of AsyncOptions.Interval.
const DefaultInterval = 100 * time.Millisecond

func (o *Options) settings() exchange.Settings {
	return exchange.Settings{
		Interval: o.Interval, MaxKeys: o.MaxKeys, Deadline: o.Deadline, Missed: o.Missed, Rand: o.Rand, OnEvent: o.OnEvent,
	}
}

var errNoExchange = errors.New("fleet: NewAsync: no Exchange: want one, such as a redisstore.Board")

// New returns a limiter that shares its counters through an exchange, and begins to. Close ends that.
func New(lo fleet.LedgerOptions, x fleet.Exchange, o Options) (*Limiter, error) {
	if x == nil {
		return nil, errNoExchange
	}
	if err := exchange.ValidateName("async: Options.Name", o.Name); err != nil {
		return nil, err
	}
	o.Author() // draws an incarnation if there is none
	shared := o.settings()
	if err := shared.Validate("async: Options", DefaultInterval); err != nil {
		return nil, err
	}
	shared.ForLedger(&lo)
	l, err := ledger.New(lo, true)
	if err != nil {
		return nil, err
	}
	a := &Limiter{
		Decider: l.Decider(), ledger: l, exchange: x, self: fleet.Peer{Name: o.Name, Incarnation: o.Incarnation}, settings: shared,
		clock: l.Options().Clock, warnings: exchange.Warnings{Report: shared.OnEvent},
	}
	a.last = a.clock.Now()
	a.clockSkew = skew.NewTracker(x, l.Options().Clock, l.Options().Epoch, shared.Deadline, l.SetClockAhead, shared.OnEvent)
	l.StartLookups(a.rounds.Hurry)
	a.rounds.Start(a.clock, shared.Pauses(), a.turn)
	return a, nil
}

// SyncClock asks the exchange for its date, as is done now and then anyway: who does so before the first decision sees to it that
// no window goes by the host's own.
func (a *Limiter) SyncClock(ctx context.Context) error { return a.clockSkew.AskNow(ctx) }

// Author returns what stands before a node's notes in an exchange: its incarnation, which is drawn if there is none, and its
// name.
func (o *Options) Author() string {
	if o.Incarnation == 0 {
		o.Incarnation = rand.Uint64() | 1
	}
	return exchange.Author(fleet.Peer{Name: o.Name, Incarnation: o.Incarnation})
}

// Close tells the other nodes what they don't know yet, as long as ctx lasts, and ends what NewAsync began. The exchange
// is the caller's to close.
func (a *Limiter) Close(ctx context.Context) error {
	return a.rounds.Finish(ctx, func(ctx context.Context) (bool, error) { return a.round(ctx, false) }, a.ledger.Close)
}

// turn makes one exchange if there is something to tell, or to find out: whether the exchange is there matters to who comes
// next, however long nobody has.
func (a *Limiter) turn(ctx context.Context, early bool) {
	if early {
		_, _ = a.round(ctx, early) // what fails is told, and told again
		return
	}
	if a.last >= a.began { // it answers, as far as is known
		a.clockSkew.AskIfDue(ctx)
	}
	_, _ = a.round(ctx, early)
	if len(a.batch.Tallies) == 0 && a.clock.Now()-a.began >= a.patience() {
		_ = a.meet(ctx)
	}
}

// patience is for how long there may be no exchange: so that one that does not answer is noticed in time.
func (a *Limiter) patience() time.Duration {
	if a.last < a.began { // the latest has failed
		return a.settings.Interval
	}
	return max(a.settings.Interval, a.settings.Interval*time.Duration(a.settings.Missed)/2)
}

// round makes one exchange, unless there is nothing to tell. It says whether there may be more.
func (a *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	a.batch.Fill(a.ledger, a.settings.MaxKeys, early)
	full := len(a.batch.Tallies) == a.settings.MaxKeys
	if !early {
		a.parts.ask(&a.batch)
	}
	if len(a.batch.Tallies) == 0 {
		return false, nil
	}
	return full, a.meet(ctx)
}

// meet makes an exchange of what is in the batch.
func (a *Limiter) meet(ctx context.Context) error {
	b := &a.batch
	ctx, done := rounds.WithTimeout(ctx, a.clock, a.settings.Deadline)
	defer done()
	a.began = a.clock.Now()
	missed, err := a.exchange.Exchange(ctx, b.Keys, b.Notes, b.Keep, b.AllNotes, a.hear)
	a.counters.Exchanges.Add(1)
	a.counters.Sent.Add(int64(len(b.Tallies) - len(missed)))
	a.counters.RoundTrip.Store(int64(a.clock.Now() - a.began))
	a.settle(missed, err)
	if f, ok := a.exchange.(fleet.LossReporter); ok {
		a.ledger.ResendGroups(f.Lost())
	}
	return err
}

// hear absorbs a note of another node.
func (a *Limiter) hear(key int, author, note string, age time.Duration) {
	from, ok := exchange.ParseAuthor(author)
	if ok && from == a.self {
		return
	}
	var t [1]ledger.Tally
	uptime, read := exchange.ReadNote(note, &t[0])
	if !ok || !read || key < 0 || key >= len(a.batch.Tallies) {
		a.counters.Malformed.Add(1)
		a.warnings.Malformed(a.clock.Now(), author)
		return
	}
	a.counters.Received.Add(1)
	// It took a while to get there, and to come here: no longer than this exchange, as a rule.
	ours := &a.batch.Tallies[key]
	t[0].Key, t[0].Age = ours.Key, max(0, age)+a.clock.Now()-a.began
	t[0].MayKnow, t[0].Bounded = ours.MayKnow, true // it was there before what this exchange leaves
	a.ledger.Apply(from, uptime, t[:])
}

// settle draws the consequences of an exchange.
func (a *Limiter) settle(missed []int, err error) {
	now := a.clock.Now()
	var f interface{ Foreign() bool }
	if errors.As(err, &f) && f.Foreign() {
		a.counters.Foreign.Add(1)
		a.warnings.Foreign(now, err)
		err = nil
	}
	if len(missed) > 0 || err != nil {
		a.counters.Failures.Add(1)
		a.ledger.Resend(a.batch.Pick(missed))
	}
	a.ledger.ExchangeDone(a.batch.Tallies, missed)
	patience := time.Duration(a.settings.Missed) * a.settings.Interval
	was := a.parts.cut
	a.parts.note(a.batch.Tallies, missed, a.began, now, patience)
	if cut := a.parts.cut; cut|was != 0 {
		a.ledger.SetGroupsUnreachable(cut, a.settings.Interval)
		a.counters.UnreachableGroups.Store(int64(bits.OnesCount64(cut)))
	}
	if len(missed) < len(a.batch.Tallies) || len(a.batch.Tallies) == 0 && err == nil {
		if a.since != 0 {
			a.ledger.SetUnreachable(false, 0)
			a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangeReachable, Down: now - a.since})
			a.since = 0
			a.counters.Unreachable.Store(false)
		}
		a.last = now
		a.tellParts(err, now)
		return
	}
	if silent := now - a.last; silent >= patience {
		a.ledger.SetUnreachable(true, a.settings.Interval)
		if a.since == 0 {
			a.since = max(1, a.last)
			a.counters.Unreachable.Store(true)
			a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangeUnreachable, Err: err})
		}
	}
}

// tellParts tells that a part of the exchange is away, or none is any more.
func (a *Limiter) tellParts(err error, now time.Duration) {
	p := &a.parts
	switch cut := p.cut != 0; {
	case cut && !p.told:
		p.told, p.toldAt = true, now
		a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartUnreachable, Err: err})
	case !cut && p.told:
		p.told = false
		a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartReachable, Down: now - p.toldAt})
	}
}

// Stats returns the figures as they are now.
func (a *Limiter) Stats() fleet.ExchangeStats {
	return a.counters.Stats(a.ledger.Stats(), a.clockSkew.Ahead())
}
