// Package background runs the background goroutines of a value, such as a store, until the value is closed.
package background

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/clock"
)

// A Group is a set of goroutines that are stopped together. Create one with New. It is safe for concurrent use.
type Group struct {
	clock   clock.Clock
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // held by Start and Stop, so that no goroutine starts after Stop
	stopped atomic.Bool
}

// New returns a Group without goroutines. It starts goroutines with clock.Go, because a simulator's clock must know
// them.
func New(c clock.Clock) *Group {
	g := &Group{clock: c}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Context returns a context that ends with Stop.
func (g *Group) Context() context.Context { return g.ctx }

// Stopped reports whether Stop was called.
func (g *Group) Stopped() bool { return g.stopped.Load() }

// Start runs a function in a goroutine. It returns false if the group was stopped.
func (g *Group) Start(run func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped.Load() {
		return false
	}
	g.running.Add(1)
	clock.Go(g.clock, func() {
		defer g.running.Done()
		run()
	})
	return true
}

// Stop cancels the context and prevents new goroutines, without waiting for the running ones. It returns false if it
// was called before.
func (g *Group) Stop() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped.Swap(true) {
		return false
	}
	g.cancel()
	return true
}

// Wait waits for the goroutines to end.
func (g *Group) Wait() { g.running.Wait() }
