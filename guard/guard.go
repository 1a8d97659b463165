package guard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

var _ headgate.Limiter = (*Guard)(nil)

// A Guard is a headgate.Limiter that asks another one and decides by itself when that fails. Make one with New. It is
// safe for concurrent use.
type Guard struct {
	inner   headgate.Limiter
	prober  Prober // nil if inner is none
	options Options
	clock   clock
	local   headgate.Limiter
	own     *memstore.Store // local, if it is the guard's

	denials *denyCache // nil if nothing is remembered
	gate    gate
	shards  shards
	terms   *terms
	onlys   sync.Pool // of *only

	counters counters
	events   chan Event
	returns  chan giving

	mu      sync.Mutex
	closed  atomic.Bool
	stop    chan struct{}
	life    context.Context // ends with the guard
	die     context.CancelFunc
	running sync.WaitGroup
}

// New returns a guard of inner. It runs goroutines of its own; Close ends them.
func New(inner headgate.Limiter, o Options) (*Guard, error) {
	if inner == nil {
		return nil, errNoStore
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Guard{
		inner: inner, options: o, clock: newClock(o.Now), local: o.Local,
		events: make(chan Event, eventRoom), returns: make(chan giving, returnsRoom), stop: make(chan struct{}),
	}
	if g.local == nil {
		own, err := memstore.New(memstore.Options{MaxBytes: localBytes, Now: o.Now})
		if err != nil {
			return nil, fmt.Errorf("guard: make the local store: %w", err)
		}
		g.own, g.local = own, own
	}
	if o.DenyCache > 0 {
		g.denials = newDenyCache(o.DenyCache.Microseconds())
	}
	g.prober, _ = inner.(Prober)
	_, forgets := inner.(Forgetter)
	g.terms = newTerms(forgets, o.Deadline)
	g.terms.wire, _ = inner.(Wire)
	g.shards.of, _ = inner.(Sharded)
	g.shards.byName.Store(&map[string]*shard{})
	if g.shards.of == nil {
		g.shards.only = g.newShard("")
	}
	g.life, g.die = context.WithCancel(context.Background())
	tell := o.OnEvent
	if tell == nil {
		tell = logEvent
	}
	g.running.Go(func() { g.tellAll(tell) })
	for range returners {
		g.running.Go(g.returnAll)
	}
	return g, nil
}

// Close ends what New started and waits for it; OnEvent has then been called for the last time. Later calls of the
// guard's methods fail with headgate.ErrClosed. It does not close the store.
func (g *Guard) Close() error {
	g.mu.Lock()
	was := g.closed.Swap(true)
	g.mu.Unlock()
	if was {
		return headgate.ErrClosed
	}
	g.die()
	close(g.stop)
	g.running.Wait()
	g.dropReturns()
	if g.own != nil {
		return g.own.Close()
	}
	return nil
}

// admit checks what every method is given first.
func (g *Guard) admit(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.closed.Load() {
		return headgate.ErrClosed
	}
	return nil
}
