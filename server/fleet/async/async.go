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
	"github.com/headgate/headgate/server/fleet/internal/tally"
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
// Nodes continue to decide by their own counters. When the exchange is reachable again, they send what they consumed.
// After several intervals without a response, the policies of checks apply. If only a part of the exchange is
// unreachable, such as one server of a cluster, the policies apply to the keys in that part. If an exchange loses its
// notes, no consumption is forgotten: each node remembers what it received, and totals keep growing. If the exchange is
// a [fleet.LossReporter], nodes send their notes again.
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
	// MaxKeys is the maximum number of keys per exchange. There are four exchanges per interval. Further keys wait, and
	// the hottest keys are sent first. Default 4096.
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
	o.Author() // sets Incarnation if it is 0
	shared := o.settings()
	if err := shared.Validate("async: Options", DefaultInterval); err != nil {
		return nil, err
	}
	shared.ForLedger(&lo)
	self := fleet.Peer{Name: o.Name, Incarnation: o.Incarnation}
	counts, err := ledger.New(lo, self, true)
	if err != nil {
		return nil, err
	}
	l := &Limiter{
		Decider: counts, ledger: counts, link: exchange.NewLink(x, counts, shared), self: self, clock: counts.Clock(),
	}
	counts.StartLookups(l.rounds.Hurry)
	l.rounds.Start(l.clock, shared.Pauses(), l.regularRound)
	return l, nil
}

// SyncClock reads the clock of the exchange, which also happens regularly. After a call before the first decision, no
// window uses this node's own clock.
func (l *Limiter) SyncClock(ctx context.Context) error { return l.link.ClockSkew.Read(ctx) }

// Author returns the author of the node's notes, which consists of the incarnation and the name. If Incarnation is 0,
// Author sets it to a random number.
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
func (l *Limiter) Close(ctx context.Context) error {
	return l.rounds.Finish(ctx, func(ctx context.Context) (bool, error) { return l.round(ctx, false) }, l.ledger.Close)
}

// regularRound exchanges what there is to send. If there was nothing to send for maxPause, it makes an empty exchange,
// to notice whether the exchange is reachable.
func (l *Limiter) regularRound(ctx context.Context, early bool) {
	if early {
		_, _ = l.round(ctx, early) // failures are reported and retried
		return
	}
	if !l.link.Failing() {
		l.link.ClockSkew.ReadIfDue(ctx)
	}
	_, _ = l.round(ctx, early)
	if len(l.batch.Tallies) == 0 && l.clock.Elapsed()-l.link.StartedAt() >= l.maxPause() {
		_ = l.exchangeBatch(ctx)
	}
}

// maxPause is the longest time without an exchange.
func (l *Limiter) maxPause() time.Duration {
	s := &l.link.Settings
	if l.link.Failing() {
		return s.Interval
	}
	return max(s.Interval, s.Interval*time.Duration(s.MaxMissed)/2)
}

// round makes one exchange, unless there is nothing to send. It reports whether there may be more to send.
func (l *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	l.batch.Fill(l.ledger, l.link.Settings.MaxKeys, early)
	full := len(l.batch.Tallies) == l.link.Settings.MaxKeys
	if !early {
		l.groups.addProbes(&l.batch)
	}
	if len(l.batch.Tallies) == 0 {
		return false, nil
	}
	return full, l.exchangeBatch(ctx)
}

// exchangeBatch makes an exchange with the content of the batch.
func (l *Limiter) exchangeBatch(ctx context.Context) error {
	missed, err := l.link.Exchange(ctx, l.batch.Notes, l.receive)
	l.finishExchange(missed, err)
	l.ledger.ResendGroups(l.link.Lost())
	return err
}

// receive applies a tally of a peer.
func (l *Limiter) receive(i int, from fleet.Peer, uptime time.Duration, t tally.Tally) {
	if from == l.self {
		return
	}
	l.link.Counters.Received.Add(1)
	ours := &l.batch.Tallies[i]
	// The peer wrote its note before this exchange stored the note of this node. So it knows at most what was sent before.
	t.Key, t.KnownUnits, t.HasKnownUnits = ours.Key, ours.KnownUnits, true
	exchange.ReadComparison(&t, &ours.Limit)
	exchange.ReadPrevious(&t, &ours.Limit)
	l.ledger.Apply(from, uptime, []tally.Tally{t})
}

// finishExchange handles the result of an exchange.
func (l *Limiter) finishExchange(missed []int, err error) {
	now, b, s := l.clock.Elapsed(), &l.batch, &l.link.Settings
	l.ledger.Resend(b.Pick(missed))
	l.ledger.ExchangeDone(b.Tallies, missed)
	before := l.groups.unreachable
	l.groups.update(b.Tallies, missed, l.link.StartedAt(), now, s.Patience())
	if unreachable := l.groups.unreachable; unreachable|before != 0 {
		l.ledger.SetGroupsUnreachable(unreachable, s.Interval)
		l.link.Counters.UnreachableGroups.Store(int64(bits.OnesCount64(unreachable)))
	}
	succeeded := len(missed) < len(b.Tallies) || len(b.Tallies) == 0 && err == nil
	l.link.Update(succeeded, err, func(unreachable bool) { l.ledger.SetUnreachable(unreachable, s.Interval) })
	if succeeded {
		l.reportGroups(err, now)
	}
}

// reportGroups reports that a part of the exchange is unreachable, or that all parts are reachable again.
func (l *Limiter) reportGroups(err error, now time.Duration) {
	g := &l.groups
	switch unreachable := g.unreachable != 0; {
	case unreachable && !g.reported:
		g.reported, g.reportedAt = true, now
		l.link.Settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartUnreachable, Err: err})
	case !unreachable && g.reported:
		g.reported = false
		l.link.Settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartReachable, Down: now - g.reportedAt})
	}
}

// Stats returns the current figures.
func (l *Limiter) Stats() fleet.ExchangeStats {
	return l.link.Stats(l.ledger.Stats())
}
