package region

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/rounds"
	"github.com/headgate/headgate/server/fleet/internal/skew"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

var _ headgate.Limiter = (*Limiter)(nil)

// A Limiter shares limits with other regions. It decides with the region's own store, for example a Redis with the
// consistency exact or lease. It sends the region's consumption to the other regions, and charges their consumption to
// the region's store. The bound of the over-admission is that of package async, with the number of regions in place of
// the number of nodes. No decision on a key in use waits for another region. On a new key, the first decision does not
// wait; later ones wait until a lookup has read the consumption of other regions.
//
// The nodes of a region add up their consumption in the region's Redis. For every key, one of the nodes sends the sum
// to the exchange that all regions share, and receives the sums of the other regions. So the traffic between regions
// does not grow with the number of nodes. The sending node can change at any time, because the region's Redis also has
// the totals of other regions. A script returns each increase of a total to exactly one node, which charges it. If the
// node fails at that moment, the charge is lost. Then this region admits too much: at most the units that were
// consumed in other regions in one interval.
//
// A charge needs the name of the key, but other regions send only its hash. So a node charges only keys that it uses.
type Limiter struct {
	store       headgate.Limiter
	regionStore fleet.RegionStore
	link        *exchange.Link
	region      string         // name of the region
	nodeName    string         // name of this node in the RegionStore; it changes with each start
	ledger      *ledger.Ledger // consumption of this node
	clock       clock.Stopwatch
	rounds      rounds.Loop
	closed      atomic.Bool

	// Only the current round uses the following fields, except the atomic.
	batch             exchange.Batch
	storeClock        skew.Estimate // clock of the region's store
	storeSkewReported bool          // an event has reported that the store's clock is off
	storeSkew         atomic.Int64  // how far the store's clock is ahead of the fleet's, in ns
	roundNumber       int
	keys              map[tally.Key]*keyState

	charges chargeCounters
}

// Options are the settings of a Limiter. Region and Node are required.
type Options struct {
	// Region is the name of this region, of at most 64 bytes.
	Region string
	// Node is the unique name of this node, of at most 64 bytes.
	Node string
	// Interval is the maximum delay until other regions know of consumption, not counting the network: 10ms to 20s.
	// Default DefaultInterval.
	Interval time.Duration
	// MaxKeys is the maximum number of keys per exchange. There are four exchanges per interval. If there are more keys,
	// the hottest are sent first, and the others wait. Default 4096.
	MaxKeys int
	// Deadline is the timeout of each step of an exchange. Default one interval, but at least 100ms and at most 2s.
	Deadline time.Duration
	// MaxMissed is the number of intervals without an exchange after which the other regions are unreachable. Default 5.
	MaxMissed int
	// Rand returns a random number below n. It is used for pauses between exchanges, and to identify this start of the
	// node, so it must not repeat its numbers after a restart. Default math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is called with events of the exchange. It must not block. By default, events are logged.
	OnEvent func(fleet.Event)
}

// DefaultInterval is the default of Options.Interval.
const DefaultInterval = time.Second

func (o *Options) settings() exchange.Settings {
	return exchange.Settings{
		Interval: o.Interval, MaxKeys: o.MaxKeys, Deadline: o.Deadline, MaxMissed: o.MaxMissed, Rand: o.Rand, OnEvent: o.OnEvent,
	}
}

// Author returns the author of the region's notes. All nodes of a region have the same author.
func (o Options) Author() string { return exchange.Author(fleet.Peer{Name: o.Region}) }

var errMissing = errors.New("region: New: want a store, a RegionStore and an Exchange")

// New returns a limiter that shares the counters of a region's store with other regions. It must be closed; it does not
// close the stores and the exchange.
func New(
	lo fleet.LedgerOptions, store headgate.Limiter, rs fleet.RegionStore, x fleet.Exchange, o Options,
) (*Limiter, error) {
	if store == nil || rs == nil || x == nil {
		return nil, errMissing
	}
	shared := o.settings()
	if err := errors.Join(
		exchange.ValidateName("region: Options.Region", o.Region), exchange.ValidateName("region: Options.Node", o.Node),
		shared.Validate("region: Options", DefaultInterval),
	); err != nil {
		return nil, err
	}
	shared.SetLedgerDefaults(&lo)
	lo.LocalCap = 0
	counts, err := ledger.New(lo, fleet.Peer{}, true)
	if err != nil {
		return nil, err
	}
	// The sender of a key may stop before it has sent the units that this node reported. So this node reports a key
	// repeatedly for two intervals after a request. A sender that stops loses its role after one interval, and then this
	// node becomes the sender.
	counts.SetLookupAfter(2 * shared.Interval)
	l := &Limiter{
		store: store, regionStore: rs, link: exchange.NewLink(x, counts, shared), region: o.Region,
		ledger: counts, clock: counts.Clock(),
		nodeName: exchange.Author(fleet.Peer{Name: o.Node, Incarnation: uint64(shared.Rand(math.MaxInt64)) | 1}),
		keys:     make(map[tally.Key]*keyState),
	}
	counts.StartLookups(l.rounds.Hurry)
	l.rounds.Start(l.clock, shared.Pauses(), func(ctx context.Context, early bool) {
		if !l.link.Unreachable() && !early {
			l.link.ClockSkew.ReadIfDue(ctx)
		}
		_, _ = l.round(ctx, early)
	})
	return l, nil
}

// SyncClock reads the clock of the exchange; see async.Limiter.SyncClock.
func (l *Limiter) SyncClock(ctx context.Context) error { return l.link.ClockSkew.Read(ctx) }

// Close sends the consumption that other regions do not know yet, until ctx ends, and stops the exchanges. After Close,
// methods fail with headgate.ErrClosed. Calling Close again does nothing.
func (l *Limiter) Close(ctx context.Context) error {
	round := func(ctx context.Context) (bool, error) { return l.round(ctx, false) }
	return l.rounds.Finish(ctx, round, func() error {
		l.closed.Store(true)
		return l.ledger.Close()
	})
}

// checkOpen returns headgate.ErrClosed after Close.
func (l *Limiter) checkOpen() error {
	if l.closed.Load() {
		return headgate.ErrClosed
	}
	return nil
}

// Take decides one check by the region's store. See [headgate.Limiter].
func (l *Limiter) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.checkOpen(); err != nil {
		return headgate.Decision{}, err
	}
	var k ledger.ObservedKey
	if wait := l.ledger.BeforeTake(&c, &k); wait != nil {
		if err := l.ledger.Await(ctx, wait); err != nil {
			return headgate.Decision{}, err
		}
	}
	d, err := l.store.Take(ctx, c)
	if err == nil {
		l.ledger.Observe(&c, &k, &d)
	}
	return d, err
}

// Peek returns the decision that Take would return now. See [headgate.Limiter].
func (l *Limiter) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.checkOpen(); err != nil {
		return headgate.Decision{}, err
	}
	var k ledger.ObservedKey
	peek := c
	peek.Cost = 0 // so that even the first decision on a key waits for other regions
	if wait := l.ledger.BeforeTake(&peek, &k); wait != nil {
		if err := l.ledger.Await(ctx, wait); err != nil {
			return headgate.Decision{}, err
		}
	}
	return l.store.Peek(ctx, c)
}

// TakeAll takes the costs of all checks or of none from the region's store. See [headgate.Limiter].
func (l *Limiter) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := l.checkOpen(); err != nil {
		return dst, err
	}
	var buffer [8]ledger.ObservedKey
	keys := buffer[:]
	if len(checks) > len(buffer) {
		keys = make([]ledger.ObservedKey, len(checks))
	}
	var waits []*lookup.Lookup
	for i := range checks {
		if wait := l.ledger.BeforeTake(&checks[i], &keys[i]); wait != nil {
			waits = append(waits, wait)
		}
	}
	if waits != nil {
		if err := l.ledger.Await(ctx, waits...); err != nil {
			return dst, err
		}
	}
	first := len(dst)
	dst, err := l.store.TakeAll(ctx, checks, dst)
	if err == nil {
		for i := range checks {
			if d := &dst[first+i]; d.Limit > 0 {
				l.ledger.Observe(&checks[i], &keys[i], d)
			}
		}
	}
	return dst, err
}

// Charge takes the cost regardless of the limit. See [headgate.Limiter].
func (l *Limiter) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.checkOpen(); err != nil {
		return headgate.Decision{}, err
	}
	d, err := l.store.Charge(ctx, c)
	if err == nil {
		k := l.ledger.ObservedKey(&c)
		l.ledger.Observe(&c, &k, &d)
	}
	return d, err
}

// Renew calls the region's store. See [headgate.Limiter].
func (l *Limiter) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if err := l.checkOpen(); err != nil {
		return false, err
	}
	return l.store.Renew(ctx, c, r)
}

// Give returns units that were taken. See [headgate.Limiter].
func (l *Limiter) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := l.checkOpen(); err != nil {
		return err
	}
	err := l.store.Give(ctx, c, r)
	if err == nil {
		l.ledger.Refund(&c)
	}
	return err
}

// Reset clears the consumption in this region only. To reset a key everywhere, call Reset in each region. See
// [headgate.Limiter].
func (l *Limiter) Reset(ctx context.Context, c headgate.Check) error {
	if err := l.checkOpen(); err != nil {
		return err
	}
	return l.store.Reset(ctx, c)
}

type chargeCounters struct{ charged, lost, owed, sentKeys atomic.Int64 }

// Stats are the figures of a Limiter on this node.
type Stats struct {
	fleet.ExchangeStats
	// Charged counts units of other regions that this node has charged to the region's store.
	Charged int64
	// Lost counts units that this node could not charge because the store failed.
	Lost int64
	// Owed is the number of units that are still to be charged, because the debts of their keys in the
	// region's store are at the maximum.
	Owed int64
	// SentKeys is the number of keys that this node sent for the region in its latest exchange.
	SentKeys int64
	// StoreClockOffset is the time by which the clock of the region's store is ahead of the fleet's.
	StoreClockOffset time.Duration
}

// Stats returns the current figures.
func (l *Limiter) Stats() Stats {
	return Stats{
		ExchangeStats: l.link.Stats(l.ledger.Stats()),
		Charged:       l.charges.charged.Load(), Lost: l.charges.lost.Load(), Owed: l.charges.owed.Load(),
		SentKeys:         l.charges.sentKeys.Load(),
		StoreClockOffset: time.Duration(l.storeSkew.Load()),
	}
}
