package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
	"github.com/headgate/headgate/redisstore/guard/internal/deadline"
	"github.com/headgate/headgate/redisstore/internal/background"
)

var _ headgate.LimitValidator = (*Guard)(nil)

// A Guard is a headgate.Limiter in front of another one, the store. If the store fails, the Guard decides by policy.
// Create one with New. It is safe for concurrent use.
type Guard struct {
	inner   headgate.Limiter
	prober  Prober  // nil if inner is not a Prober
	traffic Traffic // nil if inner is not a Traffic
	options Options
	clock   clock.Clock
	start   time.Time // the zero of the deny cache's clock, if Options.Now is nil
	local   headgate.Limiter
	created *memstore.Store // the local limiter, if New created it

	denials *admission.DenyCache // nil if denials are not remembered
	gate    admission.KeyGate
	calls   *deadline.Tracker
	shards  shardTable
	batches sync.Pool // of *batch

	counters counters
	events   *background.Queue[Event]
	refunds  *background.Queue[refund]

	background *background.Group
}

// New returns a guard of inner. Close ends its goroutines.
func New(inner headgate.Limiter, o Options) (*Guard, error) {
	if inner == nil {
		return nil, errNoStore
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Guard{
		inner: inner, options: o, clock: o.Clock, start: o.Clock.Now(), local: o.Local,
		background: background.New(o.Clock),
	}
	if g.local == nil {
		store, err := memstore.New(memstore.Options{MaxBytes: localBytes, Now: o.Now})
		if err != nil {
			return nil, fmt.Errorf("guard: create the local store: %w", err)
		}
		g.created, g.local = store, store
	}
	if o.DenyCache > 0 {
		g.denials = admission.NewDenyCache(o.DenyCache.Microseconds(), o.Hash)
	}
	g.prober, _ = inner.(Prober)
	g.traffic, _ = inner.(Traffic)
	g.calls = deadline.NewTracker(o.Clock, o.Deadline, g.traffic)
	g.shards.store, _ = inner.(Sharded)
	g.shards.byName.Store(&map[string]*shard{})
	if g.shards.store == nil {
		g.shards.only = g.newShard("")
	}
	onEvent := o.OnEvent
	if onEvent == nil {
		onEvent = logEvent
	}
	g.events = background.NewQueue(g.background, maxEvents, 1, onEvent)
	g.refunds = background.NewQueue(g.background, maxRefunds, refunders, g.refund)
	return g, nil
}

// MustNew is New for options known to be valid. It panics on an error.
func MustNew(inner headgate.Limiter, o Options) *Guard {
	g, err := New(inner, o)
	if err != nil {
		panic(err)
	}
	return g
}

// Close ends the goroutines of the guard and waits for them. After Close, OnEvent is not called, and methods fail with
// headgate.ErrClosed. Close does not close the store. A second call does nothing.
func (g *Guard) Close() error {
	if !g.background.Stop() {
		return nil
	}
	g.background.Wait()
	if g.created != nil {
		return g.created.Close()
	}
	return nil
}

// micros returns the time in µs by the clock of the deny cache.
func (g *Guard) micros() int64 {
	if g.options.Now != nil {
		return g.options.Now().UnixMicro()
	}
	return g.clock.Since(g.start).Microseconds()
}

// checkOpen returns an error if a method cannot run, because its context has ended or the guard is closed.
func (g *Guard) checkOpen(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.background.Stopped() {
		return headgate.ErrClosed
	}
	return nil
}

// validate is checkOpen for a method with a check.
func (g *Guard) validate(ctx context.Context, c *headgate.Check) error {
	if err := g.checkOpen(ctx); err != nil {
		return err
	}
	return c.Validate()
}

// ValidateLimit returns an error for an invalid limit and for a custom algorithm. [headgate.Bind] uses it.
func (*Guard) ValidateLimit(limit headgate.Limit) error { return limit.Validate() }
