package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

var _ headgate.Limiter = (*Region)(nil)

// A RegionBook is where the nodes of a region add up what they consumed, and take note of what other regions did. One is in
// the region's Redis (redisstore.RegionBook). Times are in µs by the book's clock, and of nodes' records by their own.
type RegionBook interface {
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

// A Region shares limits with other regions. It decides by the region's own store, which may be exact or lease, and tells
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
type Region struct {
	inner    headgate.Limiter
	book     RegionBook
	exchange Exchange
	options  RegionOptions
	life     string  // names this life of the node in the book: another one counts again
	ledger   *Ledger // of what this node consumed
	clock    Clock
	rounds   rounds
	calendar *calendar

	// Of rounds, one at a time.
	batch       batch
	began       time.Duration
	last, since time.Duration // see Async
	strangers   strangers
	home        dial         // the date of the region's store
	toldHome    bool         // that it is off
	homeOff     atomic.Int64 // ns: by how much it is later than that of the fleet
	turn        int
	keys        map[Key]*regionKey

	counters asyncCounters
	region   regionCounters
}

// RegionOptions are the settings of a Region. Region and Node must be given.
type RegionOptions struct {
	// Region is the name of this region, which all its nodes have and no other. At most 64 bytes.
	Region string
	// Node is this node's name, which no other has. At most 64 bytes.
	Node string
	// Interval is how old what is known of other regions may be. 10 ms to 20 s. Default DefaultRegionInterval.
	Interval time.Duration
	// MaxKeys is how many keys are exchanged at once, four times in an interval; others wait, the hottest first. Default
	// DefaultAsyncKeys.
	MaxKeys int
	// Deadline is how long each step of an exchange may take. Default an interval, and 100 ms to 2 s.
	Deadline time.Duration
	// Missed is after how many intervals without an exchange the others are taken for away. Default 5.
	Missed int
	// Rand returns a number below n by chance. Default math/rand/v2.
	Rand func(n int64) int64
	// OnEvent is told when the exchange is away, back, used by others, or garbled. It must not block. Default is to log.
	OnEvent func(AsyncEvent)
}

// DefaultRegionInterval is how old what is known of other regions may be, unless told otherwise.
const DefaultRegionInterval = time.Second

func (o *RegionOptions) validate() error {
	if o.Interval == 0 {
		o.Interval = DefaultRegionInterval
	}
	if o.Region == "" || len(o.Region) > maxName {
		return fmt.Errorf("fleet: RegionOptions.Region %q: want a name of at most %d bytes that no other region has", o.Region[:min(len(o.Region), maxName)], maxName)
	}
	a := AsyncOptions{
		Name: o.Node, Interval: o.Interval, MaxKeys: o.MaxKeys, Deadline: o.Deadline, Missed: o.Missed, Rand: o.Rand, OnEvent: o.OnEvent,
	}
	if err := a.validate(); err != nil {
		return fmt.Errorf("fleet: RegionOptions, as: %w", err)
	}
	o.MaxKeys, o.Deadline, o.Missed, o.Rand, o.OnEvent = a.MaxKeys, a.Deadline, a.Missed, a.Rand, a.OnEvent
	return nil
}

// Author returns what stands before a region's notes in an exchange. All nodes of a region have the same.
func (o RegionOptions) Author() string { return authorOf(Peer{Name: o.Region}) }

var errNoRegion = errors.New("fleet: NewRegion: want a Limiter, a RegionBook and an Exchange")

// NewRegion returns a limiter that shares the counters of a region's store with other regions, and begins to. Close ends
// that; the store, the book and the exchange are the caller's to close.
func NewRegion(lo LedgerOptions, store headgate.Limiter, book RegionBook, x Exchange, o RegionOptions) (*Region, error) {
	if store == nil || book == nil || x == nil {
		return nil, errNoRegion
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	lo.Asks, lo.LocalCap = true, 0
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
	// What a node consumed while another speaks is told by that one, or, if it does not speak again for an interval, by this one:
	// so it must report once more after that.
	l.setAttentive(2 * o.Interval)
	g := &Region{inner: store, book: book, exchange: x, options: o, ledger: l, clock: l.options.Clock, keys: make(map[Key]*regionKey)}
	g.strangers.tell = o.OnEvent
	g.life = (&AsyncOptions{Name: o.Node}).Author()
	g.last = g.clock.Now()
	g.calendar = newCalendar(x, l, o.Deadline, o.OnEvent)
	l.startLearning(g.rounds.hurry)
	g.rounds.begin(g.clock, spread(o.Interval, o.Rand), func(ctx context.Context, early bool) {
		if g.since == 0 && !early {
			g.calendar.turn(ctx)
		}
		_, _ = g.round(ctx, early)
	})
	return g, nil
}

// AskDate asks the exchange for its date; see [Async.AskDate].
func (g *Region) AskDate(ctx context.Context) error { return g.calendar.askNow(ctx) }

// Close tells the other regions what they don't know yet, as long as ctx lasts, and ends what NewRegion began.
func (g *Region) Close(ctx context.Context) error {
	return g.rounds.finish(ctx, func(ctx context.Context) (bool, error) { return g.round(ctx, false) }, g.ledger)
}

// Take decides one check by the region's store. See [headgate.Limiter].
func (g *Region) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	var k witnessKey
	if wait := g.ledger.foresee(&c, &k); wait != nil {
		if err := g.ledger.await(ctx, wait); err != nil {
			return headgate.Decision{}, err
		}
	}
	d, err := g.inner.Take(ctx, c)
	if err == nil && c.Cost > 0 {
		g.ledger.witness(&c, &k, &d)
	}
	return d, err
}

// TakeAll decides several checks as one by the region's store. See [headgate.Limiter].
func (g *Region) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	var room [8]witnessKey
	keys := room[:]
	if len(checks) > len(room) {
		keys = make([]witnessKey, len(checks))
	}
	var waits []*lookup
	for i := range checks {
		if wait := g.ledger.foresee(&checks[i], &keys[i]); wait != nil {
			waits = append(waits, wait)
		}
	}
	if waits != nil {
		if err := g.ledger.await(ctx, waits...); err != nil {
			return dst, err
		}
	}
	first := len(dst)
	dst, err := g.inner.TakeAll(ctx, checks, dst)
	if err == nil {
		for i := range checks {
			if d := &dst[first+i]; checks[i].Cost > 0 && d.Limit > 0 {
				g.ledger.witness(&checks[i], &keys[i], d)
			}
		}
	}
	return dst, err
}

// Charge takes the cost whatever the limit says. See [headgate.Limiter].
func (g *Region) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	d, err := g.inner.Charge(ctx, c)
	if err == nil {
		var k witnessKey
		k.plan, k.key, _ = g.ledger.told(&c)
		g.ledger.witness(&c, &k, &d)
	}
	return d, err
}

// Renew is that of the region's limiter. See [headgate.Limiter].
func (g *Region) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	return g.inner.Renew(ctx, c, r)
}

// Give returns units that were taken. See [headgate.Limiter] and [Ledger.Give].
func (g *Region) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	err := g.inner.Give(ctx, c, r)
	if err == nil {
		g.ledger.takeBack(&c)
	}
	return err
}

// Reset forgets what was consumed in this region. Other regions are not told: reset the key in each. See
// [headgate.Limiter].
func (g *Region) Reset(ctx context.Context, c headgate.Check) error { return g.inner.Reset(ctx, c) }

type regionCounters struct{ charged, lost, owed, spoken atomic.Int64 }

// RegionStats are the figures of a Region, as far as this node sees them.
type RegionStats struct {
	AsyncStats
	// Charged is how many units of other regions this node has charged to the region's store.
	Charged int64
	// Lost is how many it could not charge, as the store failed.
	Lost int64
	// Owed is how many are still to be charged, as debts are at their deepest.
	Owed int64
	// Spoken is how many keys this node spoke for in its latest exchange.
	Spoken int64
	// StoreOff is by how much the date of the region's store is later than that of the fleet.
	StoreOff time.Duration
}

// Stats returns the figures as they are now.
func (g *Region) Stats() RegionStats {
	return RegionStats{
		AsyncStats: g.counters.stats(g.ledger, g.calendar), Charged: g.region.charged.Load(), Lost: g.region.lost.Load(),
		Owed: g.region.owed.Load(), Spoken: g.region.spoken.Load(), StoreOff: time.Duration(g.homeOff.Load()),
	}
}
