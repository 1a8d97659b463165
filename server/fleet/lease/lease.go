package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
)

var _ headgate.Limiter = (*Limiter)(nil)

// A Source grants units. A *guard.Guard in front of a redisstore.Store is one.
type Source interface {
	// Grant takes at least c.Cost units or none, at most want, and no more than 1/share of the remaining units unless
	// c.Cost is more. The decision's receipt has the units. An error means that the source is unreachable.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
	Take(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error
	Reset(ctx context.Context, c headgate.Check) error
}

// A Degrader is a Source, such as a guard, that decides by a check's policy when it is unreachable, and has a deadline
// for its calls.
type Degrader interface {
	Degrade(ctx context.Context, c headgate.Check) (headgate.Decision, error)
}

// Defaults for Options that are zero.
const (
	DefaultTTL        = 100 * time.Millisecond // also the maximum
	DefaultMaxKeys    = 1 << 20
	DefaultMaxWaiting = 1 << 14
	DefaultTimeout    = time.Second
)

// Options are the settings of a Limiter. The zero value is valid.
type Options struct {
	// TTL is how long units may be used after they were requested, 1ms to 100ms. Default DefaultTTL.
	TTL time.Duration
	// MaxKeys is the approximate number of keys with units at once. A key takes about 500 bytes and its name. Default
	// DefaultMaxKeys.
	MaxKeys int
	// MaxWaiting is the maximum number of callers per key that wait for units. Further callers are denied. Default
	// DefaultMaxWaiting.
	MaxWaiting int
	// Timeout is the timeout of calls of the source. It is not used if the source is a Degrader, which has a timeout of
	// its own. Default DefaultTimeout.
	Timeout time.Duration
	// Members counts the nodes that share the limits. Default this node only.
	Members fleet.Members
	// Clock is the clock and its timers. Default clock.System.
	Clock clock.Clock
}

const minTTL = time.Millisecond

func (o *Options) validate() error {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	if o.TTL < minTTL || o.TTL > DefaultTTL {
		return fmt.Errorf("lease: Options.TTL %v: want %v to %v", o.TTL, minTTL, DefaultTTL)
	}
	o.MaxKeys = cmp.Or(o.MaxKeys, DefaultMaxKeys)
	if o.MaxKeys < 1 {
		return fmt.Errorf("lease: Options.MaxKeys %d: want at least 1", o.MaxKeys)
	}
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	if o.MaxWaiting < 1 {
		return fmt.Errorf("lease: Options.MaxWaiting %d: want at least 1", o.MaxWaiting)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Timeout < 0 {
		return fmt.Errorf("lease: Options.Timeout %v: want more than 0", o.Timeout)
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	return nil
}

var errNoSource = errors.New("lease: New: want a Source")

// A Limiter takes units from a shared store ahead of their use, and hands them out in this process: one store call for
// many decisions. It is safe for concurrent use.
//
// # Guarantees
//
// Units are debited in the store before they are used. So all nodes together never hand out more than the limit in
// total: burst + rate·t for token-bucket and gcra, Count in every window for fixed-window.
//
// Units may be used for TTL after they were requested, by this node's monotonic clock, and not beyond the end of their
// window. This is checked whenever a unit is used, so a process that was stopped uses none of them. Units may be
// debited up to TTL before their use, so a token bucket can admit burst + rate·(t + TTL) in some interval of length t.
// Bucket and leases together never hold more than burst + rate·TTL, for this reason:
//
// A lease of n units, granted h ago, would be credited c(n) = max(0, n − rate·h) if it were returned; this is what
// the store's Give does. Then bucket + Σc ≤ burst at all times. A grant takes n from the bucket and adds n to the
// sum. As time passes the bucket gains rate·dt, and if any c is above 0 the sum loses at least as much; if none is,
// the bucket alone is at most the burst. Use lowers the sum. Returning a part m of n moves c(m) to the bucket and
// leaves c(n−m), and c(m) + c(n−m) ≤ c(n). At a moment t, all units that can still be used were granted after s =
// t − TTL. The bucket and these units are at most the bucket at s, plus rate·TTL, plus the credits since for leases
// from before s, which are at most the sum at s. So they are at most burst + rate·TTL.
//
// # Costs
//
// A key costs the store about 10 calls per second and node, at most 16, and 12 at once after a pause, for any demand.
// Only a limit that refills in less than an eighth of a second, or a shorter window, is requested more often: as often
// as needed to use it fully. Requests follow demand, for 80 % of TTL ahead. Of N nodes, the store gives each at most
// 1/2N of the remaining units while others take from the key as well, up to a half if none does, and at least what the
// first waiting caller needs. So near the limit grants get small and decisions become exact. Unused units are returned
// when the lease expires, as far as they have not refilled already, and when the Limiter is closed.
//
// Callers without units wait for the current call, or for the next one that may be made. If the store did not have
// enough for all, they are denied until then, or until RetryAfter has passed. So RetryAfter is an estimate; Remaining
// and ResetAfter are the store's latest.
//
// # Changes and failures
//
// Units are held for a key and a limit. Before the first request for a key under another limit, this node returns the
// units that it holds under the old one. So the new limit counts what was consumed, and what other nodes hold under the
// old one until they return it, within TTL. A raised limit applies its addition at once, and a lowered one applies at
// once. Reset forgets the units that this node holds; other nodes may use theirs until they expire. If the store loses
// its data, its keys start again, and held units may be used besides: at most one burst more, as leases are part of the
// burst that was lost. If a server's clock jumps ahead, its buckets refill and returned units are credited less; if it
// jumps back, no time passes until it is where it was. Leases do not use it.
//
// If the source fails, held units are used until they expire. Then a [Degrader] decides each check. If the source is
// none, its error is returned, and it is called again after 50 ms. A source that takes longer than TTL to respond
// cannot lease: for a second, it is called for every check.
//
// Split keys and peeks (Cost 0) always call the source. If MaxKeys is reached, keys without units are evicted; if there
// are none, checks of new keys call the source one by one.
//
// The Limiter copies the strings that it keeps of a check. It is not an engine.Borrower, as it reads the owner, which
// says where in the store a key is. So it shares its counters with limiters that take from the same store one by one.
type Limiter struct {
	source  Source
	guard   Degrader // the source if it is a Degrader, or nil
	options Options
	clock   clock.Stopwatch
	table   table
	wheel   wheel
	rounds  rounds

	rtt       atomic.Int64 // recent duration of calls, in ns
	returning atomic.Int64 // number of returns in progress
	counts    counters

	life    context.Context // ends with the limiter
	endLife context.CancelFunc
	mu      sync.Mutex // held when starting a goroutine, and when closing
	closed  atomic.Bool
	running sync.WaitGroup
}

// New returns a Limiter of the units in source. Close returns its units.
func New(source Source, o Options) (*Limiter, error) {
	if source == nil {
		return nil, errNoSource
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &Limiter{source: source, options: o, clock: clock.NewStopwatch(o.Clock)}
	l.guard, _ = source.(Degrader)
	l.table.init(o.MaxKeys)
	l.wheel.init(l.clock, l.sweep)
	l.life, l.endLife = context.WithCancel(context.Background())
	return l, nil
}

// admit checks the arguments that all methods share.
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

// start runs a function that Close waits for. It returns false if the limiter is closed.
func (l *Limiter) start(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	l.running.Add(1)
	clock.Go(l.clock.Clock, func() {
		defer l.running.Done()
		run()
	})
	return true
}

// Take decides one check, with held units if possible. See [headgate.Limiter].
func (l *Limiter) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.admit(ctx); err != nil {
		return d, err
	}
	if l.decideLocally(&c, &d) {
		return d, nil
	}
	return l.take(ctx, &c)
}

// decideLocally decides a check by held units or a known denial, into d. It returns false if it cannot.
func (l *Limiter) decideLocally(c *headgate.Check, d *headgate.Decision) bool {
	// Key and limit are valid if they are found.
	if c.Cost < 1 || c.Split != 0 || c.OnFailure > headgate.Local || c.Safe != nil && c.Validate() != nil {
		return false
	}
	h := l.table.find(l.table.hash(c.Key), c.Key, &c.Limit)
	if h == nil {
		return false
	}
	now := l.clock.Elapsed()
	if g := h.front.Load(); g != nil && now < g.expires {
		if left, ok := g.take(c.Cost); ok {
			if left <= g.lowWater || now >= g.renewAt {
				l.renew(h, g)
			}
			g.describe(d, h.capacity, left, now, c.Cost)
			return true
		}
	}
	if x := h.denial.Load(); x != nil && now < x.until && c.Cost >= x.cost {
		l.deny(h, x, now, c.Cost, d)
		return true
	}
	return false
}

// take decides a check that decideLocally cannot decide.
func (l *Limiter) take(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err
	}
	switch {
	case !algorithm.Grantable(c.Limit.Algorithm):
		return headgate.Decision{}, headgate.ErrUnsupported
	case c.Split > 1, c.Cost > c.Limit.Capacity():
		return l.takeExact(ctx, cloneCheck(c))
	}
	hash := l.table.hash(c.Key)
	for {
		h := l.table.find(hash, c.Key, &c.Limit)
		if h == nil {
			h = l.insert(ctx, hash, c)
		}
		if h == nil {
			return l.takeExact(ctx, cloneCheck(c))
		}
		d, w, result := l.decideOrWait(h, c)
		switch result {
		case decided:
			return d, nil
		case removed:
			l.table.remove(h)
			continue
		case callStoreAlone:
			return l.takeExact(ctx, h.ownStrings(c))
		case storeFailed:
			return l.degrade(ctx, h, c)
		}
		l.counts.waits.Add(1)
		return l.wait(ctx, h, w, c)
	}
}

// cloneCheck returns a check whose strings may be kept.
func cloneCheck(c *headgate.Check) headgate.Check {
	copied := *c
	copied.Key, copied.Owner = strings.Clone(c.Key), strings.Clone(c.Owner)
	return copied
}

// takeExact calls the source for one check.
func (l *Limiter) takeExact(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	l.counts.exact.Add(1)
	l.counts.calls.Add(1)
	ctx, end := l.withTimeout(ctx)
	defer end()
	return l.source.Take(ctx, c)
}

// Peek returns what remains in the store and here. See [headgate.Limiter].
func (l *Limiter) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.admit(ctx); err != nil {
		return headgate.Decision{}, err
	}
	l.counts.exact.Add(1)
	l.counts.calls.Add(1)
	ctx, end := l.withTimeout(ctx)
	defer end()
	d, err := l.source.Peek(ctx, cloneCheck(&c))
	if err != nil || d.Degraded || !algorithm.Grantable(c.Limit.Algorithm) {
		return d, err
	}
	now := l.clock.Elapsed()
	var held int64 // under any limit, as units of other limits are returned before the first request
	l.table.each(c.Key, func(h *holding) { held += h.held(now) })
	if held > 0 {
		d.Remaining = min(d.Limit, d.Remaining+held)
		if d.Allowed = d.Remaining >= c.Cost; d.Allowed {
			d.RetryAfter = 0
		}
	}
	return d, nil
}

// degrade decides a check whose source is unreachable. If the source is overloaded, no policy applies.
func (l *Limiter) degrade(ctx context.Context, h *holding, c *headgate.Check) (headgate.Decision, error) {
	if err := h.lastError(); errors.Is(err, headgate.ErrOverloaded) {
		return headgate.Decision{}, err
	}
	l.counts.degraded.Add(1)
	if l.guard != nil {
		return l.guard.Degrade(ctx, h.ownStrings(c))
	}
	return headgate.Decision{}, h.lastError()
}

// withTimeout returns the context for a call of the source, which a Degrader bounds by itself.
func (l *Limiter) withTimeout(ctx context.Context) (context.Context, func()) {
	if l.guard != nil {
		return ctx, func() {}
	}
	return clock.WithTimeout(ctx, l.clock, l.options.Timeout)
}

// liveNodes returns how many nodes share the limits.
func (l *Limiter) liveNodes() int64 {
	if l.options.Members == nil {
		return 1
	}
	return int64(max(1, l.options.Members.Live()))
}
