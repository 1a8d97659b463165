package region

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/exchange"
	"github.com/headgate/headgate/fleet/internal/ledger"
	"github.com/headgate/headgate/fleet/internal/rounds"
	"github.com/headgate/headgate/fleet/internal/skew"
)

var _ headgate.Limiter = (*Limiter)(nil)

// A Book is where the nodes of a region add up what they consumed, and take note of what other regions did. One is in
// the region's Redis (redisstore.RegionBook). Times are in µs by the book's clock, and of nodes' records by their own.
type Book interface {
	// Report adds what a node consumed to what the region did, once however often it is reported: since when, in which
	// window (0 if there are none), how much, and how much of that was reported before. Of the nodes that report a key, one
	// speaks for the region, for as long as hold and again. learned says whether this node knows what other regions consumed.
	// reported is called with whether this node speaks, whether one that spoke within two holds was learned, since when the region
	// has kept account, and of how much; missed are the indices of keys for which it was not. A node that starts again has
	// another name.
	Report(ctx context.Context, node string, keys []string, starts, windows, totals, told []int64, learned []bool, keep []time.Duration,
		hold time.Duration, reported func(key int, speaks, known bool, start, total, now int64)) (missed []int, err error)
	// Settle takes note of what other regions say that they consumed: since when, how much, when they said so, how much it can be in all,
	// and how much of it can be news if that record is known. It calls news with how much was not known, once for the whole region, and whether
	// nothing was known of that region, it said more than can be, or less than before. Of more than can be, what can is news
	// once, and is what is known then.
	Settle(ctx context.Context, keys, regions []string, starts, totals, said, all, most []int64, keep []time.Duration,
		news func(item int, units int64, first, leaped, fell bool)) (missed []int, err error)
}

// A Limiter shares limits with other regions. It decides by the region's own store, which may be exact or lease, and tells
// the other regions what this one consumed, and charges what they did to the region's store: as [Async] does between nodes,
// with one more step, and the same bound, where N is the number of regions. No decision on a key that is in use waits for
// another region; one on a key that is new here waits for a lookup from the second on, as under [Async].
//
// What the nodes of a region consumed is added up in the region's Redis. For every key, one of the nodes that count it
// speaks for the region: it takes the sum to the exchange that all regions share, and brings back what others left there. So
// the traffic between regions does not grow with their nodes. Which node it is can change at any time: what is known of
// other regions is in the region's Redis too, and a script tells each piece of news to one node, once. That node charges it;
// if it dies in that moment, the charge is lost, and at most what was consumed elsewhere in an interval passes here too.
//
// It needs no election: a node that does not count a key does not know its name, which is nowhere but in the nodes, and could
// not charge it.
type Limiter struct {
	inner     headgate.Limiter
	book      Book
	exchange  fleet.Exchange
	region    string // its name
	settings  exchange.Settings
	life      string         // names this life of the node in the book: another one counts again
	ledger    *ledger.Ledger // of what this node consumed
	counting  fleet.LedgerOptions
	clock     fleet.Clock
	rounds    rounds.Loop
	clockSkew *skew.Tracker

	// Of rounds, one at a time.
	batch       exchange.Batch
	began       time.Duration
	last, since time.Duration // see Async
	warnings    exchange.Warnings
	home        skew.Estimate // the date of the region's store
	toldHome    bool          // that it is off
	homeOff     atomic.Int64  // ns: by how much it is later than that of the fleet
	turn        int
	keys        map[ledger.Key]*regionKey

	counters exchange.Counters
	charges  regionCounters
}

// Options are the settings of a Region. Region and Node must be given.
type Options struct {
	// Region is the name of this region, which all its nodes have and no other. At most 64 bytes.
	Region string
	// Node is this node's name, which no other has. At most 64 bytes.
	Node string
	// Interval is how old what is known of other regions may be. 10 ms to 20 s. Default DefaultRegionInterval.
	Interval time.Duration
	// MaxKeys is how many keys are exchanged at once, four times in an interval; others wait, the hottest first. Default
	// exchange.DefaultMaxKeys.
	MaxKeys int
	// Deadline is how long each step of an exchange may take. Default an interval, and 100 ms to 2 s.
	Deadline time.Duration
	// Missed is after how many intervals without an exchange the others are taken for away. Default 5.
	Missed int
	// Rand returns a number below n by chance. Default math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is told when the exchange is away, back, used by others, or garbled. It must not block. Default is to log.
	OnEvent func(fleet.Event)
}

// DefaultInterval is how old what is known of other regions may be, unless told otherwise.
const DefaultInterval = time.Second

func (o *Options) settings() exchange.Settings {
	return exchange.Settings{
		Interval: o.Interval, MaxKeys: o.MaxKeys, Deadline: o.Deadline, Missed: o.Missed, Rand: o.Rand, OnEvent: o.OnEvent,
	}
}

// Author returns what stands before a region's notes in an exchange. All nodes of a region have the same.
func (o Options) Author() string { return exchange.Author(fleet.Peer{Name: o.Region}) }

var errNoRegion = errors.New("fleet: NewRegion: want a Limiter, a RegionBook and an Exchange")

// New returns a limiter that shares the counters of a region's store with other regions, and begins to. Close ends
// that; the store, the book and the exchange are the caller's to close.
func New(lo fleet.LedgerOptions, store headgate.Limiter, book Book, x fleet.Exchange, o Options) (*Limiter, error) {
	if store == nil || book == nil || x == nil {
		return nil, errNoRegion
	}
	shared := o.settings()
	if err := errors.Join(
		exchange.ValidateName("region: Options.Region", o.Region), exchange.ValidateName("region: Options.Node", o.Node),
		shared.Validate("region: Options", DefaultInterval),
	); err != nil {
		return nil, err
	}
	shared.ForLedger(&lo)
	lo.LocalCap = 0
	l, err := ledger.New(lo, true)
	if err != nil {
		return nil, err
	}
	// What a node consumed while another speaks is told by that one, or, if it does not speak again for an interval, by this one:
	// so it must report once more after that.
	l.SetLookupAge(2 * shared.Interval)
	g := &Limiter{inner: store, book: book, exchange: x, region: o.Region, settings: shared, ledger: l, counting: l.Options(), clock: l.Options().Clock, keys: make(map[ledger.Key]*regionKey)}
	g.warnings.Report = shared.OnEvent
	g.life = exchange.Author(fleet.Peer{Name: o.Node, Incarnation: rand.Uint64() | 1})
	g.last = g.clock.Now()
	g.clockSkew = skew.NewTracker(x, l.Options().Clock, l.Options().Epoch, shared.Deadline, l.SetClockAhead, shared.OnEvent)
	l.StartLookups(g.rounds.Hurry)
	g.rounds.Start(g.clock, shared.Pauses(), func(ctx context.Context, early bool) {
		if g.since == 0 && !early {
			g.clockSkew.AskIfDue(ctx)
		}
		_, _ = g.round(ctx, early)
	})
	return g, nil
}

// SyncClock asks the exchange for its date; see [Async.AskDate].
func (g *Limiter) SyncClock(ctx context.Context) error { return g.clockSkew.AskNow(ctx) }

// Close tells the other regions what they don't know yet, as long as ctx lasts, and ends what NewRegion began.
func (g *Limiter) Close(ctx context.Context) error {
	return g.rounds.Finish(ctx, func(ctx context.Context) (bool, error) { return g.round(ctx, false) }, g.ledger.Close)
}

// Take decides one check by the region's store. See [headgate.Limiter].
func (g *Limiter) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	var k ledger.ObservedKey
	if wait := g.ledger.BeforeTake(&c, &k); wait != nil {
		if err := g.ledger.Await(ctx, wait); err != nil {
			return headgate.Decision{}, err
		}
	}
	d, err := g.inner.Take(ctx, c)
	if err == nil && c.Cost > 0 {
		g.ledger.Observe(&c, &k, &d)
	}
	return d, err
}

// TakeAll decides several checks as one by the region's store. See [headgate.Limiter].
func (g *Limiter) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	var room [8]ledger.ObservedKey
	keys := room[:]
	if len(checks) > len(room) {
		keys = make([]ledger.ObservedKey, len(checks))
	}
	var waits []*ledger.Lookup
	for i := range checks {
		if wait := g.ledger.BeforeTake(&checks[i], &keys[i]); wait != nil {
			waits = append(waits, wait)
		}
	}
	if waits != nil {
		if err := g.ledger.Await(ctx, waits...); err != nil {
			return dst, err
		}
	}
	first := len(dst)
	dst, err := g.inner.TakeAll(ctx, checks, dst)
	if err == nil {
		for i := range checks {
			if d := &dst[first+i]; checks[i].Cost > 0 && d.Limit > 0 {
				g.ledger.Observe(&checks[i], &keys[i], d)
			}
		}
	}
	return dst, err
}

// Charge takes the cost whatever the limit says. See [headgate.Limiter].
func (g *Limiter) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	d, err := g.inner.Charge(ctx, c)
	if err == nil {
		k := g.ledger.ObservedKey(&c)
		g.ledger.Observe(&c, &k, &d)
	}
	return d, err
}

// Renew is that of the region's limiter. See [headgate.Limiter].
func (g *Limiter) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return g.inner.Renew(ctx, c, r)
}

// Give returns units that were taken. See [headgate.Limiter] and [Ledger.Give].
func (g *Limiter) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	err := g.inner.Give(ctx, c, r)
	if err == nil {
		g.ledger.Refund(&c)
	}
	return err
}

// Reset forgets what was consumed in this region. Other regions are not told: reset the key in each. See
// [headgate.Limiter].
func (g *Limiter) Reset(ctx context.Context, c headgate.Check) error { return g.inner.Reset(ctx, c) }

type regionCounters struct{ charged, lost, owed, spoken atomic.Int64 }

// Stats are the figures of a Region, as far as this node sees them.
type Stats struct {
	fleet.ExchangeStats
	// Charged is how many units of other regions this node has charged to the region's store.
	Charged int64
	// Lost is how many it could not charge, as the store failed.
	Lost int64
	// Owed is how many are still to be charged, as debts are at their deepest.
	Owed int64
	// Spoken is how many keys this node spoke for in its latest exchange.
	Spoken int64
	// StoreClockOff is by how much the date of the region's store is later than that of the fleet.
	StoreClockOff time.Duration
}

// Stats returns the figures as they are now.
func (g *Limiter) Stats() Stats {
	return Stats{
		ExchangeStats: g.counters.Stats(g.ledger.Stats(), g.clockSkew.Ahead()), Charged: g.charges.charged.Load(), Lost: g.charges.lost.Load(),
		Owed: g.charges.owed.Load(), Spoken: g.charges.spoken.Load(), StoreClockOff: time.Duration(g.homeOff.Load()),
	}
}
