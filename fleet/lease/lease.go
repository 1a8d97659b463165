package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/rounds"
)

var _ headgate.Limiter = (*Limiter)(nil)

// A Source is what a Lease asks for units: a *guard.Guard before a redisstore.Store is one.
type Source interface {
	// Grant takes at least c.Cost units, or none; at most want; and no more than the part 1/share of what remains, unless
	// c.Cost is more. The units are those of the decision's receipt. An error is that of a source that cannot be asked.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
	Take(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error
	Reset(ctx context.Context, c headgate.Check) error
}

// A degrader is a Source that decides by a check's policy when it could not be asked, and has a deadline for its calls: a
// guard.
type degrader interface {
	Degrade(ctx context.Context, c headgate.Check) (headgate.Decision, error)
}

// Defaults for LeaseOptions that are zero.
const (
	DefaultTTL        = 100 * time.Millisecond // and the most
	DefaultMaxKeys    = 1 << 20
	DefaultMaxWaiting = 1 << 14
	DefaultTimeout    = time.Second
)

// Options are the settings of a Lease. The zero LeaseOptions are good.
type Options struct {
	// TTL is for how long units may be used after they were asked for. 1 ms to 100 ms; default DefaultLeaseTTL.
	TTL time.Duration
	// MaxKeys is for about how many keys units are held at once. A key has some 500 bytes, and its name. Default
	// DefaultLeaseKeys.
	MaxKeys int
	// MaxWaiting is how many callers of one key may wait for units at once; more are denied. Default DefaultLeaseWaiting.
	MaxWaiting int
	// Timeout is how long a call of the source may take, unless it is a guard, which has its own. Default DefaultLeaseTimeout.
	Timeout time.Duration
	// Members tells how many nodes share the limits. Default none: this node is alone.
	Members fleet.Members
	// Clock is what time it is. Default System().
	Clock fleet.Clock
}

const minTTL = time.Millisecond

func (o *Options) validate() error {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL < minTTL || o.TTL > DefaultTTL {
		return fmt.Errorf("fleet: lease TTL %v: want %v to %v", o.TTL, minTTL, DefaultTTL)
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.MaxKeys < 1 {
		return fmt.Errorf("fleet: lease MaxKeys %d: want at least 1", o.MaxKeys)
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	if o.MaxWaiting < 1 {
		return fmt.Errorf("fleet: lease MaxWaiting %d: want at least 1", o.MaxWaiting)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Timeout < 0 {
		return fmt.Errorf("fleet: lease Timeout %v: want more than 0", o.Timeout)
	}
	if o.Clock == nil {
		o.Clock = fleet.SystemClock()
	}
	return nil
}

var errNoSource = errors.New("fleet: no source to lease from")

// A Limiter is a headgate.Limiter that takes units from a shared store ahead of their use, and hands them out in this
// process: one call of the store for many decisions. Make one with NewLease. It is safe for concurrent use.
//
// # What is promised
//
// Units are debited in the store before anybody uses them. So all nodes together, counted from the start, never hand out
// more than the limit: burst + rate·t for token-bucket and gcra, Count in every window for fixed-window.
//
// Units may be used for TTL after they were asked for, by this host's monotonic clock, and not beyond the end of their window.
// That is looked at whenever a unit is used: a process that was stopped for a while uses none of them. Since units may be
// debited in one moment and used up to TTL later, a token bucket can let burst + rate·(t + TTL) pass in some interval of
// length t. The proof is that bucket and leases together never hold more than burst + rate·TTL:
//
// Say a lease of n units, granted h ago, would be credited c(n) = max(0, n − rate·h) if it were handed back; that is what
// the store's Give does. Then bucket + Σc ≤ burst at all times. A grant takes n from the bucket and adds n to the sum. As time
// passes the bucket gains rate·dt, and if any c is above 0 the sum loses at least as much; if none is, the bucket alone
// is at most the burst. Use lowers the sum. Handing back a part m of n moves c(m) to the bucket and leaves c(n−m), and
// c(m) + c(n−m) ≤ c(n). Now look at a moment t. All units that can still be used were granted after s = t − TTL. What the
// bucket and they hold at t is at most what the bucket held at s, and rate·TTL, and what was credited since for leases from
// before s, which is at most the sum at s. So it is at most burst + rate·TTL.
//
// # What it costs
//
// A key costs the store about 10 calls a second and node, at most 16 and 12 at once after a rest, however much is offered. Only a
// limit that refills in less than an eighth of a second, or a window shorter than one, is asked for more often: as often as
// it takes to use it fully. How much is asked for follows demand, for 80 % of TTL ahead; the store gives no more
// than 1/2N of what remains to one of N nodes as long as others take from the key as well, up to a half if nobody
// does, and at least what the first caller in line needs. So near the limit grants get small and decisions become exact. Units that nobody used go back when the lease expires, as far as time has not given them
// back already; when the Lease is closed all do.
//
// Callers who find nothing wait for a call that is under way, or for the next that may be made. If the last answer was that
// there is not enough for all, they are denied until then, or until RetryAfter has passed. So RetryAfter is an
// estimate; Remaining and ResetAfter are what the store said last.
//
// # When things change
//
// Units are held for a key and a limit. Before a key is first asked for under another limit, this node hands back what it holds
// under the old one. So the new limit counts what was consumed, and what other nodes hold under the old one until they hand it
// back, within TTL. A raised limit gives its addition at once, a lowered one is in force at once. Reset forgets what
// this node holds; other nodes may use what they hold until it expires. If the store loses its data, its keys begin again, and
// what is held may be used besides, until it expires: one burst more at most, as leases are part of the burst that was lost.
// A server's clock that jumps ahead lets its buckets refill and credits less for what is handed back; one that jumps back lets
// no time pass until it is where it was. Leases do not go by it.
//
// If the source fails, what is held is used until it expires. Then a source with a method Degrade (a guard) decides check by
// check; of another the error is returned, and it is asked again after 50 ms. From a source that needs longer than TTL to
// answer nothing can be leased: it is asked for every check for a second.
//
// Keys that are split, and looks (Cost 0), always ask the source. If MaxKeys is reached, keys of which nothing is held make
// room; if there is none, the newcomer's checks go to the source one by one.
//
// What it keeps of a check's strings it copies. But it needs the owner, which says where in the store a key is: so it is no
// engine.Borrower, and shares its counters with who takes from the same store one by one.
type Limiter struct {
	source  Source
	guard   degrader // the source, nil if it is none
	options Options
	clock   fleet.Clock
	table   table
	wheel   wheel

	rtt       atomic.Int64 // how long calls take of late, in ns
	returning atomic.Int64 // hand-backs under way
	counters  counters

	life    context.Context // ends with the lease
	die     context.CancelFunc
	mu      sync.Mutex // held by who starts something, and by who closes
	closed  atomic.Bool
	running sync.WaitGroup
}

// New returns a Lease of what source counts. Close hands back what it holds.
func New(source Source, o Options) (*Limiter, error) {
	if source == nil {
		return nil, errNoSource
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &Limiter{source: source, options: o, clock: o.Clock}
	l.guard, _ = source.(degrader)
	l.table.init(o.MaxKeys)
	l.wheel.init(l.clock, l.sweep)
	l.life, l.die = context.WithCancel(context.Background())
	return l, nil
}

// admit checks what every method is given first.
func (l *Limiter) admit(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.closed.Load() {
		return headgate.ErrClosed
	}
	return nil
}

// start runs something that Close waits for. It is false if the lease is closed.
func (l *Limiter) start(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	l.running.Go(run)
	return true
}

// Take decides one check, from what this node holds if it can. See [headgate.Limiter].
func (l *Limiter) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.admit(ctx); err != nil {
		return d, err
	}
	if l.known(&c, &d) {
		return d, nil
	}
	return l.take(ctx, &c)
}

// known decides a check that can be decided here and now, into d.
func (l *Limiter) known(c *headgate.Check, d *headgate.Decision) bool {
	// Its key and limit are valid if they are found.
	if c.Cost < 1 || c.Split != 0 || c.OnFailure > headgate.Local || c.Safe != nil && c.Validate() != nil {
		return false
	}
	h := l.table.find(l.table.hash(c.Key), c.Key, &c.Limit)
	if h == nil {
		return false
	}
	now := l.clock.Now()
	if g := h.front.Load(); g != nil && now < g.expires {
		if left, ok := g.take(c.Cost); ok {
			if left <= g.low || now >= g.renewAt {
				l.renew(h, g)
			}
			g.describe(d, h.capacity, left, now, c.Cost)
			return true
		}
	}
	if x := h.denial.Load(); x != nil && now < x.until && c.Cost >= x.cost {
		h.denied.Add(c.Cost)
		x.describe(d, h.capacity, now, c.Cost)
		l.counters.denied.Add(1)
		return true
	}
	return false
}

// take decides a check that needs more than a look.
func (l *Limiter) take(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err
	}
	switch {
	case c.Cost == 0:
		return l.look(ctx, c)
	case !algorithm.Grantable(c.Limit.Algorithm):
		return headgate.Decision{}, headgate.ErrUnsupported
	case c.Split > 1, c.Cost > c.Limit.Capacity():
		return l.takeExact(ctx, kept(c))
	}
	hash := l.table.hash(c.Key)
	for {
		h := l.table.find(hash, c.Key, &c.Limit)
		if h == nil {
			h = l.insert(ctx, hash, c)
		}
		if h == nil {
			return l.takeExact(ctx, kept(c))
		}
		d, w, how := l.enter(h, c)
		switch how {
		case decided:
			return d, nil
		case outlived:
			l.table.remove(h)
			continue
		case asksItself:
			return l.takeExact(ctx, h.named(c))
		case cannotAsk:
			return l.degrade(ctx, h, c)
		}
		l.counters.waits.Add(1)
		return l.wait(ctx, h, w, c)
	}
}

// kept returns a check whose strings may be kept.
func kept(c *headgate.Check) headgate.Check {
	copied := *c
	copied.Key, copied.Owner = strings.Clone(c.Key), strings.Clone(c.Owner)
	return copied
}

// takeExact asks the source for a check.
func (l *Limiter) takeExact(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	l.counters.exact.Add(1)
	l.counters.calls.Add(1)
	ctx, end := l.within(ctx)
	defer end()
	return l.source.Take(ctx, c)
}

// look tells what remains: in the store, and here.
func (l *Limiter) look(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	d, err := l.takeExact(ctx, kept(c))
	if err != nil || d.Degraded || !algorithm.Grantable(c.Limit.Algorithm) {
		return d, err
	}
	now := l.clock.Now()
	var held int64 // under any limit: what is held under another goes back when this one is first asked for
	l.table.of(c.Key, func(h *holding) { held += h.held(now) })
	if held > 0 {
		d.Remaining = min(d.Limit, d.Remaining+held)
		d.Allowed = d.Remaining >= 0
	}
	return d, nil
}

// degrade decides a check whose source cannot be asked. No policy decides it if the source has too much to do.
func (l *Limiter) degrade(ctx context.Context, h *holding, c *headgate.Check) (headgate.Decision, error) {
	if err := h.failure(); errors.Is(err, headgate.ErrOverloaded) {
		return headgate.Decision{}, err
	}
	l.counters.degraded.Add(1)
	if l.guard != nil {
		return l.guard.Degrade(ctx, h.named(c))
	}
	return headgate.Decision{}, h.failure()
}

// within returns a context that ends when a call of the source has taken too long.
func (l *Limiter) within(ctx context.Context) (context.Context, func()) {
	if l.guard != nil {
		return ctx, func() {}
	}
	return rounds.WithTimeout(ctx, l.clock, l.options.Timeout)
}

// nodes returns how many nodes share the limits.
func (l *Limiter) nodes() int64 {
	if l.options.Members == nil {
		return 1
	}
	return int64(max(1, l.options.Members.Live()))
}
