package async

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/rounds"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

var _ headgate.Limiter = (*Limiter)(nil)

// A Limiter decides by this node's own counters. Several times per interval it exchanges with its peers what was
// consumed of the requested keys, through a [fleet.Exchange]. No decision on a key in use waits for that.
//
// # New keys
//
// Consumption older than S, as defined below, counts in full from this node's second decision on a key. The first
// decision on a key that is new here, or was unused for an interval, uses what this node knows. It does not wait,
// except for a peek at a new key. Later decisions that this node's counter would allow wait for a lookup, for at most
// 250 ms. Lookups of several keys are one exchange, and at most 4,096 decisions wait at once. Other decisions, and all
// while the exchange fails, use this node's counter, and LedgerStats.LookupsDropped counts them.
//
// # Over-admission
//
// Consumption elsewhere is known after S = interval + 2 delays at the latest, where a delay is that of the way to the
// exchange. N nodes with a burst of R and a rate of r admit at most (N−1)(R+rS) units above the limit before they
// know. With λ the highest arrival rate in any S: if λ is at least twice the rate, it is at most (λ−r)S, otherwise
// at most what peers admit within S, which is below λS. It is a debt, and no node admits anything until it is repaid;
// the excess of a fixed window counts in the next one. So in the long run no more than the limit passes, except under
// sliding-window, where a debt ends with its window. Each node exchanges four times per interval, so updates are
// normally no older than half an interval and two delays; the rest is for late calls. LedgerOptions.LocalCap bounds
// what a single node can use.
//
// # An unreachable exchange
//
// Nodes go on deciding by themselves, and send what they consumed when the exchange is reachable again. After several
// intervals without a response the checks' policies apply. If only a part is unreachable, such as one server of a
// cluster, they apply to its keys. If an exchange loses its notes, nothing is lost that matters: each node remembers
// what it received, and totals go on. If the exchange is a [fleet.LossReporter], nodes leave their notes again.
//
// # Windows
//
// Windows use the clock of the exchange, if it is a [fleet.ClockSource]. A node whose clock differs by more than
// fleet.MaxClockSkew is reported.
type Limiter struct {
	ledger.Decider
	ledger    *ledger.Ledger
	exchange  fleet.Exchange
	self      fleet.Peer
	settings  exchange.Settings
	clock     clock.Stopwatch
	rounds    rounds.Loop
	clockSkew *skew.Tracker

	batch            exchange.Batch
	groups           keyGroups
	startedAt        time.Duration // when the latest exchange started, by the clock
	succeededAt      time.Duration // when an exchange last succeeded
	unreachableSince time.Duration // when exchanges started to fail; 0 while they succeed

	warnings exchange.Warnings

	counters exchange.Counters
}

// Options are the settings of a Limiter. Name is required.
type Options struct {
	// Name is the unique name of this node, of at most 64 bytes.
	Name string
	// Incarnation differs for each start of the node. Default a random one, drawn once for these options.
	Incarnation uint64
	// Interval is how old consumption elsewhere may be when it becomes known. 10 ms to 20 s. Default DefaultInterval.
	Interval time.Duration
	// MaxKeys is the most keys per exchange, of which there are four per interval; others wait, the hottest first. Default
	// 4096.
	MaxKeys int
	// Deadline is the longest time of one exchange. Default one interval, and 100 ms to 2 s.
	Deadline time.Duration
	// Missed is the number of intervals without an exchange after which policies apply. Default 5.
	Missed int
	// Rand returns a random number below n. It spreads exchanges, so that nodes do not exchange at the same time, and is
	// the source of Incarnation. Default math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is called with events of the exchange. It must not block. Default logs them.
	OnEvent func(fleet.Event)
}

// DefaultInterval is the default of Options.Interval.
const DefaultInterval = 100 * time.Millisecond

func (o *Options) settings() exchange.Settings {
	return exchange.Settings{
		Interval: o.Interval, MaxKeys: o.MaxKeys, Deadline: o.Deadline, Missed: o.Missed, Rand: o.Rand, OnEvent: o.OnEvent,
	}
}

var errNoExchange = errors.New("async: New: want an Exchange")

// New returns a limiter that shares its counters through an exchange. It must be closed.
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
		Decider: l.Decider(), ledger: l, exchange: x, self: fleet.Peer{Name: o.Name, Incarnation: o.Incarnation},
		settings: shared,
		clock:    l.Clock(), warnings: exchange.Warnings{Report: shared.OnEvent},
	}
	a.succeededAt = a.clock.Elapsed()
	a.clockSkew = skew.NewTracker(x, l.Clock(), shared.Deadline, l.SetClockAhead, shared.OnEvent)
	l.StartLookups(a.rounds.Hurry)
	a.rounds.Start(a.clock, shared.Pauses(), a.regularRound)
	return a, nil
}

// SyncClock reads the clock of the exchange, which also happens regularly. After a call before the first decision, no
// window uses this node's own clock.
func (a *Limiter) SyncClock(ctx context.Context) error { return a.clockSkew.AskNow(ctx) }

// Author returns the name under which a node leaves its notes: its incarnation, which is drawn if it is 0, and its
// name.
func (o *Options) Author() string {
	if o.Incarnation == 0 {
		random := o.Rand
		if random == nil {
			random = rand.Int64N
		}
		o.Incarnation = uint64(random(math.MaxInt64)) | 1
	}
	return exchange.Author(fleet.Peer{Name: o.Name, Incarnation: o.Incarnation})
}

// Close sends what peers do not know yet, until ctx ends, and stops the exchanges. It does not close the exchange.
func (a *Limiter) Close(ctx context.Context) error {
	return a.rounds.Finish(ctx, func(ctx context.Context) (bool, error) { return a.round(ctx, false) }, a.ledger.Close)
}

// regularRound exchanges what there is to send, or checks now and then whether the exchange is reachable.
func (a *Limiter) regularRound(ctx context.Context, early bool) {
	if early {
		_, _ = a.round(ctx, early) // failures are reported and retried
		return
	}
	if a.succeededAt >= a.startedAt { // the latest exchange succeeded
		a.clockSkew.AskIfDue(ctx)
	}
	_, _ = a.round(ctx, early)
	if len(a.batch.Tallies) == 0 && a.clock.Elapsed()-a.startedAt >= a.maxPause() {
		_ = a.exchangeBatch(ctx)
	}
}

// maxPause is the longest time without an exchange, so that an unreachable one is noticed.
func (a *Limiter) maxPause() time.Duration {
	if a.succeededAt < a.startedAt { // the latest exchange failed
		return a.settings.Interval
	}
	return max(a.settings.Interval, a.settings.Interval*time.Duration(a.settings.Missed)/2)
}

// round makes one exchange, unless there is nothing to send. It reports whether there may be more to send.
func (a *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	a.batch.Fill(a.ledger, a.settings.MaxKeys, early)
	full := len(a.batch.Tallies) == a.settings.MaxKeys
	if !early {
		a.groups.addProbes(&a.batch)
	}
	if len(a.batch.Tallies) == 0 {
		return false, nil
	}
	return full, a.exchangeBatch(ctx)
}

// exchangeBatch makes an exchange with the content of the batch.
func (a *Limiter) exchangeBatch(ctx context.Context) error {
	b := &a.batch
	ctx, done := clock.WithTimeout(ctx, a.clock, a.settings.Deadline)
	defer done()
	a.startedAt = a.clock.Elapsed()
	missed, err := a.exchange.Exchange(ctx, b.Notes, a.receive)
	a.counters.Exchanges.Add(1)
	a.counters.Sent.Add(int64(len(b.Tallies) - len(missed)))
	a.counters.RoundTrip.Store(int64(a.clock.Elapsed() - a.startedAt))
	a.finishExchange(missed, err)
	if f, ok := a.exchange.(fleet.LossReporter); ok {
		a.ledger.ResendGroups(f.Lost())
	}
	return err
}

// receive applies a note of a peer.
func (a *Limiter) receive(key int, note fleet.PeerNote) {
	from, ok := exchange.ParseAuthor(note.Author)
	if ok && from == a.self {
		return
	}
	var t [1]ledger.Tally
	uptime, read := exchange.ReadNote(note.Text, &t[0])
	if !ok || !read || key < 0 || key >= len(a.batch.Tallies) {
		a.counters.Malformed.Add(1)
		a.warnings.Malformed(a.clock.Elapsed(), note.Author)
		return
	}
	a.counters.Received.Add(1)
	// The note was on its way no longer than this exchange took, normally.
	ours := &a.batch.Tallies[key]
	t[0].Key, t[0].Age = ours.Key, max(0, note.Age)+a.clock.Elapsed()-a.startedAt
	t[0].MayKnow, t[0].Bounded = ours.MayKnow, true // it was there before this exchange left ours
	a.ledger.Apply(from, uptime, t[:])
}

// finishExchange handles the result of an exchange.
func (a *Limiter) finishExchange(missed []int, err error) {
	now := a.clock.Elapsed()
	var foreign *fleet.ForeignError
	if errors.As(err, &foreign) {
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
	before := a.groups.unreachable
	a.groups.update(a.batch.Tallies, missed, a.startedAt, now, patience)
	if unreachable := a.groups.unreachable; unreachable|before != 0 {
		a.ledger.SetGroupsUnreachable(unreachable, a.settings.Interval)
		a.counters.UnreachableGroups.Store(int64(bits.OnesCount64(unreachable)))
	}
	if len(missed) < len(a.batch.Tallies) || len(a.batch.Tallies) == 0 && err == nil {
		if a.unreachableSince != 0 {
			a.ledger.SetUnreachable(false, 0)
			a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangeReachable, Down: now - a.unreachableSince})
			a.unreachableSince = 0
			a.counters.Unreachable.Store(false)
		}
		a.succeededAt = now
		a.reportGroups(err, now)
		return
	}
	if silent := now - a.succeededAt; silent >= patience {
		a.ledger.SetUnreachable(true, a.settings.Interval)
		if a.unreachableSince == 0 {
			a.unreachableSince = max(1, a.succeededAt)
			a.counters.Unreachable.Store(true)
			a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangeUnreachable, Err: err})
		}
	}
}

// reportGroups reports that a part of the exchange is unreachable, or that all parts are reachable again.
func (a *Limiter) reportGroups(err error, now time.Duration) {
	p := &a.groups
	switch unreachable := p.unreachable != 0; {
	case unreachable && !p.reported:
		p.reported, p.reportedAt = true, now
		a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartUnreachable, Err: err})
	case !unreachable && p.reported:
		p.reported = false
		a.settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartReachable, Down: now - p.reportedAt})
	}
}

// Stats returns the present figures.
func (a *Limiter) Stats() fleet.ExchangeStats {
	return a.counters.Stats(a.ledger.Stats(), a.clockSkew.Ahead())
}
