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

// A Limiter decides by this node's own counters. Several times per interval, nodes send each other their consumption of
// the requested keys through a [fleet.Exchange]. Decisions on keys that are in use do not wait for an exchange.
//
// # New keys
//
// A lookup is an exchange that reads how much peers consumed of a new key. A key is new if this node has not used it
// before, or not for an interval. The first decision on a new key uses this node's counter and does not wait; only a
// peek waits. Later decisions that this node's counter would allow wait for the lookup, for at most 250 ms. So from the
// second decision on, all consumption older than S, as defined below, counts. One exchange looks up several keys. At
// most 4,096 decisions wait at the same time. Further decisions, and all decisions while the exchange fails, use this
// node's counter; LedgerStats.LookupsDropped counts them.
//
// # Over-admission
//
// A node knows the consumption of its peers after at most S = interval + 2 delays, where a delay is the one-way latency
// to the exchange. Until then, N nodes with a burst of R and a rate of r admit at most (N−1)(R+rS) units above the
// limit. Let λ be the highest arrival rate in any time of length S. If λ is at least 2r, the over-admission is at most
// (λ−r)S. Otherwise it is at most the units that peers admit within S, which is below λS.
//
// Over-admission becomes a debt, and no node admits anything until the debt is repaid. The excess of a fixed window
// counts in the next window. So in the long run, no more than the limit is admitted. The exception is sliding-window,
// where a debt ends with its window. Each node exchanges four times per interval, so updates are normally at most half
// an interval and two delays old; S allows for late calls. LedgerOptions.LocalCap limits the share of a single node.
//
// # An unreachable exchange
//
// While the exchange is unreachable, nodes decide by their own counters. When it is reachable again, they send their
// consumption. After several intervals without a response, the policies of checks apply. If only a part of the exchange
// is unreachable, such as one server of a cluster, the policies apply to the keys in that part. If an exchange loses
// its notes, no consumption is lost: each node has the totals that it received, and totals keep growing. If the
// exchange is a [fleet.LossReporter], nodes send their notes again.
//
// # Windows
//
// If the exchange is a [fleet.ClockSource], windows start by its clock. OnEvent reports when the clock of this node
// differs by more than fleet.MaxClockSkew.
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
	// Incarnation is a number that differs for each start of the node. Default a random number, which is stored here.
	Incarnation uint64
	// Interval is the maximum delay until peers know of consumption, not counting the network: 10ms to 20s. Default
	// DefaultInterval.
	Interval time.Duration
	// MaxKeys is the maximum number of keys per exchange. There are four exchanges per interval. If there are more keys,
	// the hottest are sent first, and the others wait. Default 4096.
	MaxKeys int
	// Deadline is the timeout of an exchange. Default one interval, but at least 100ms and at most 2s.
	Deadline time.Duration
	// MaxMissed is the number of intervals without an exchange after which policies apply. Default 5.
	MaxMissed int
	// Rand returns a random number below n. It is used for pauses between exchanges, so that nodes do not all exchange at
	// the same time, and for Incarnation. Default math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is called with events of the exchange. It must not block. By default, events are logged.
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

var errNoExchange = errors.New("async: New: the Exchange is nil")

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
	shared.SetLedgerDefaults(&lo)
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

// SyncClock reads the clock of the exchange. The Limiter also does this regularly. Call SyncClock before the first
// decision, so that no window starts by this node's own clock.
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

// Close sends the consumption that peers do not know yet, until ctx ends, and stops the Limiter. It does not close the
// exchange.
func (l *Limiter) Close(ctx context.Context) error {
	return l.rounds.Finish(ctx, func(ctx context.Context) (bool, error) { return l.round(ctx, false) }, l.ledger.Close)
}

// regularRound exchanges the notes that have to be sent. If there were none for maxPause, it makes an empty exchange,
// to find out whether the exchange is reachable.
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

// receive applies a tally of a peer. i is the index of its key in the batch.
func (l *Limiter) receive(i int, from fleet.Peer, uptime time.Duration, t tally.Tally) {
	if from == l.self {
		return
	}
	l.link.Counters.Received.Add(1)
	ours := &l.batch.Tallies[i]
	// The peer wrote its note before this exchange stored this node's note, so it knows at most the units sent earlier.
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
	wasUnreachable := l.groups.unreachable
	l.groups.update(b.Tallies, missed, l.link.StartedAt(), now, s.UnreachableAfter())
	if unreachable := l.groups.unreachable; unreachable|wasUnreachable != 0 {
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
		l.link.Settings.OnEvent(fleet.Event{Kind: fleet.ExchangePartlyUnreachable, Err: err})
	case !unreachable && g.reported:
		g.reported = false
		l.link.Settings.OnEvent(fleet.Event{Kind: fleet.ExchangeFullyReachable, Down: now - g.reportedAt})
	}
}

// Stats returns the current figures.
func (l *Limiter) Stats() fleet.ExchangeStats {
	return l.link.Stats(l.ledger.Stats())
}
