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
// The consumption of peers is known after S = interval + 2 delays at the latest, where a delay is the time of one way
// to the exchange. Until then, N nodes with a burst of R and a rate of r admit at most (N−1)(R+rS) units above the
// limit. Let λ be the highest arrival rate in any S. If λ is at least twice the rate, the excess is at most (λ−r)S,
// otherwise at most what peers admit within S, which is below λS. The excess is a debt, and no node admits anything
// until it is repaid; the excess of a fixed window counts in the next one. So in the long run no more than the limit
// passes, except under sliding-window, where a debt ends with its window. Each node exchanges four times per interval,
// so updates are normally no older than half an interval and two delays; the rest is for late calls.
// LedgerOptions.LocalCap bounds what a single node can use.
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
	ledger *ledger.Ledger
	link   *exchange.Link
	self   fleet.Peer
	clock  clock.Stopwatch
	rounds rounds.Loop
	batch  exchange.Batch
	groups keyGroups
}

// Options are the settings of a Limiter. Name is required.
type Options struct {
	// Name is the unique name of this node, of at most 64 bytes.
	Name string
	// Incarnation differs for each start of the node. Default a random one, drawn once for these options.
	Incarnation uint64
	// Interval is how old the consumption of peers may be when it becomes known, 10ms to 20s. Default DefaultInterval.
	Interval time.Duration
	// MaxKeys is the most keys per exchange, of which there are four per interval; others wait, the hottest first. Default
	// 4096.
	MaxKeys int
	// Deadline is the timeout of an exchange. Default one interval, but at least 100ms and at most 2s.
	Deadline time.Duration
	// MaxMissed is the number of intervals without an exchange after which policies apply. Default 5.
	MaxMissed int
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
		Interval: o.Interval, MaxKeys: o.MaxKeys, Deadline: o.Deadline, MaxMissed: o.MaxMissed, Rand: o.Rand,
		OnEvent: o.OnEvent,
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
	self := fleet.Peer{Name: o.Name, Incarnation: o.Incarnation}
	l, err := ledger.New(lo, self, true)
	if err != nil {
		return nil, err
	}
	a := &Limiter{Decider: l, ledger: l, link: exchange.NewLink(x, l, shared), self: self, clock: l.Clock()}
	l.StartLookups(a.rounds.Hurry)
	a.rounds.Start(a.clock, shared.Pauses(), a.regularRound)
	return a, nil
}

// SyncClock reads the clock of the exchange, which also happens regularly. After a call before the first decision, no
// window uses this node's own clock.
func (a *Limiter) SyncClock(ctx context.Context) error { return a.link.ClockSkew.Read(ctx) }

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
	if !a.link.Failing() {
		a.link.ClockSkew.ReadIfDue(ctx)
	}
	_, _ = a.round(ctx, early)
	if len(a.batch.Tallies) == 0 && a.clock.Elapsed()-a.link.StartedAt() >= a.maxPause() {
		_ = a.exchangeBatch(ctx)
	}
}

// maxPause is the longest time without an exchange, so that an unreachable one is noticed.
func (a *Limiter) maxPause() time.Duration {
	s := &a.link.Settings
	if a.link.Failing() {
		return s.Interval
	}
	return max(s.Interval, s.Interval*time.Duration(s.MaxMissed)/2)
}

// round makes one exchange, unless there is nothing to send. It reports whether there may be more to send.
func (a *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	a.batch.Fill(a.ledger, a.link.Settings.MaxKeys, early)
	full := len(a.batch.Tallies) == a.link.Settings.MaxKeys
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
	missed, err := a.link.Exchange(ctx, a.batch.Notes, a.receive)
	a.finishExchange(missed, err)
	a.ledger.ResendGroups(a.link.Lost())
	return err
}

// receive applies a tally of a peer.
func (a *Limiter) receive(i int, from fleet.Peer, uptime time.Duration, t ledger.Tally) {
	if from == a.self {
		return
	}
	a.link.Counters.Received.Add(1)
	ours := &a.batch.Tallies[i]
	// The peer wrote its note before this exchange stored ours.
	t.Key, t.KnownUnits, t.HasKnownUnits = ours.Key, ours.KnownUnits, true
	exchange.ReadComparison(&t, &ours.Limit)
	exchange.ReadPrevious(&t, &ours.Limit)
	a.ledger.Apply(from, uptime, []ledger.Tally{t})
}

// finishExchange handles the result of an exchange.
func (a *Limiter) finishExchange(missed []int, err error) {
	now, b, s := a.clock.Elapsed(), &a.batch, &a.link.Settings
	a.ledger.Resend(b.Pick(missed))
	a.ledger.ExchangeDone(b.Tallies, missed)
	before := a.groups.unreachable
	a.groups.update(b.Tallies, missed, a.link.StartedAt(), now, s.Patience())
	if unreachable := a.groups.unreachable; unreachable|before != 0 {
		a.ledger.SetGroupsUnreachable(unreachable, s.Interval)
		a.link.Counters.UnreachableGroups.Store(int64(bits.OnesCount64(unreachable)))
	}
	succeeded := len(missed) < len(b.Tallies) || len(b.Tallies) == 0 && err == nil
	a.link.Update(succeeded, err, func(unreachable bool) { a.ledger.SetUnreachable(unreachable, s.Interval) })
	if succeeded {
		a.reportGroups(err, now)
	}
}

// reportGroups reports that a part of the exchange is unreachable, or that all parts are reachable again.
func (a *Limiter) reportGroups(err error, now time.Duration) {
	g := &a.groups
	switch unreachable := g.unreachable != 0; {
	case unreachable && !g.reported:
		g.reported, g.reportedAt = true, now
		a.link.Settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartUnreachable, Err: err})
	case !unreachable && g.reported:
		g.reported = false
		a.link.Settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartReachable, Down: now - g.reportedAt})
	}
}

// Stats returns the current figures.
func (a *Limiter) Stats() fleet.ExchangeStats {
	return a.link.Stats(a.ledger.Stats())
}
