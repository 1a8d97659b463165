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
	// Grant takes between c.Cost and want units, or none. It takes at most 1/share of the remaining units, but c.Cost if
	// that is more. The decision's receipt has the number of units. An error means that the source is unreachable.
	Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error)
	Take(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error)
	Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error
	Reset(ctx context.Context, c headgate.Check) error
}

// A Degrader is a Source that can decide by the policy of a check when it is unreachable, and that limits the time of
// its calls. A guard is a Degrader.
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
	// TTL is the time after a request of units in which they may be used, 1ms to 100ms. Default DefaultTTL.
	TTL time.Duration
	// MaxKeys is the approximate maximum number of keys for which this node holds units. A key takes about 500 bytes plus
	// its length. Default DefaultMaxKeys.
	MaxKeys int
	// MaxWaiting is the maximum number of callers per key that wait for units. Further callers are denied. Default
	// DefaultMaxWaiting.
	MaxWaiting int
	// Timeout is the timeout of calls of the source. It is not used if the source is a Degrader, which has its own
	// timeout. Default DefaultTimeout.
	Timeout time.Duration
	// Members returns the number of nodes that share the limits. Default nil: only this node.
	Members fleet.Members
	// Clock provides the time and timers. Default clock.System.
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

var errNoSource = errors.New("lease: New: the Source is nil")

// A Limiter takes units from a shared store before they are needed, and uses them for decisions in this process. So one
// store call serves many decisions. It is safe for concurrent use.
//
// # Guarantees
//
// Units are taken from the store before they are used. So all nodes together never admit more than the limit in total:
// burst + rate·t for token-bucket and gcra, Count in every window for fixed-window.
//
// Units expire TTL after they were requested, by this node's monotonic clock, or at the end of their window. The
// Limiter checks this whenever it uses a unit, so a process that was stopped for some time uses no expired units. Units
// may be taken up to TTL before their use, so a token bucket can admit burst + rate·(t + TTL) in some interval of
// length t. Bucket and leases together never have more than burst + rate·TTL, for this reason:
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
// For each key, a node calls the store about 10 times per second, whatever the demand: at most 16 times, or 12 times in
// a row after a pause. Only limits that refill in less than an eighth of a second, and short windows, need more calls
// to be used fully. A node requests the units that it expects to need in 80 % of TTL. If N nodes use a key, the store
// grants each request at most 1/2N of the remaining units, and up to a half if no other node takes units. A grant has
// at least the units that the first waiting caller needs. So near the limit, grants become small and decisions exact.
// When a lease expires, its unused units are returned, except those that have refilled in the store. Close also returns
// unused units.
//
// Callers without units wait for the current call, or for the next one that may be made. If the store did not have
// enough units for all, they are denied until then, or until RetryAfter has passed. So RetryAfter is an estimate, and
// Remaining and ResetAfter are the store's latest figures.
//
// # Changes and failures
//
// Units belong to a key and a limit. Before the first request for a key under another limit, this node returns the
// units that it holds under the old limit. Other nodes do so within TTL. So consumption is kept when a limit changes. A
// changed limit applies immediately. Reset drops the units that this node holds; other nodes may use their units until
// they expire. If the store loses its data, its keys are full again, and held units may still be used. This admits at
// most one additional burst, because leases are part of the lost burst. If the clock of a store's server jumps ahead,
// its buckets refill, and returned units are credited less. If it jumps back, nothing refills until it has caught up.
// Leases do not use this clock.
//
// If the source fails, held units are used until they expire. After that, a [Degrader] decides each check. If the
// source is not a Degrader, the Limiter returns its error, and calls it again after 50 ms. If the source takes longer
// than TTL to respond, its units would already be expired, so for a second the Limiter calls it for every check.
//
// Checks of split keys, and peeks (Cost 0), always call the source. If MaxKeys is reached, keys without units are
// evicted. If there are none, the Limiter calls the source for each check of a new key.
//
// The Limiter copies the strings of a check that it keeps. It does not implement engine.Borrower, because it reads the
// check's Owner, which determines the place of a key in the store. So it uses the same counters as limiters that call
// the same store for each check.
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

	ctx     context.Context // ends when the limiter is closed
	cancel  context.CancelFunc
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
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// checkOpen returns an error if ctx has ended or the limiter is closed.
func (l *Limiter) checkOpen(ctx context.Context) error {
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
	if err := l.checkOpen(ctx); err != nil {
		return d, err
	}
	if l.decideLocally(&c, &d) {
		return d, nil
	}
	return l.take(ctx, &c)
}

// decideLocally decides a check by held units or a recent denial, and sets d. It returns false if it cannot decide.
func (l *Limiter) decideLocally(c *headgate.Check, d *headgate.Decision) bool {
	// Key and limit need no validation here: invalid ones are not found in the table.
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

// Peek adds the units that remain in the store and those that this node holds. See [headgate.Limiter].
func (l *Limiter) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.checkOpen(ctx); err != nil {
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
	var held int64 // under any limit, because units under other limits are returned before the first request
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

// withTimeout returns the context for a call of the source, which a Degrader limits itself.
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
