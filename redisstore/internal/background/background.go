// Package background runs the goroutines of a value until the value is stopped.
package background

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/clock"
)

// A Group is the goroutines of a value. Create one with New. It is safe for concurrent use.
type Group struct {
	clock   clock.Clock
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // held to start a goroutine, and to stop
	stopped atomic.Bool
}

// New returns a Group without goroutines. They run by the clock.
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

// Stop refuses new goroutines and ends the context, without waiting for the goroutines. It returns false if it was
// called before.
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
