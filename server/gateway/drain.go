package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// Shutdown ends the gateway without failing a request. Ready is false at once. After Config.DrainDelay no more
// connections are accepted, and responses tell clients to use a new one (Connection: close, GOAWAY). Requests in flight
// are finished, and upgraded connections are closed after Config.UpgradeGrace. If the context ends before that, the
// remaining requests are cut off, and the error is the context's. Concurrent calls wait for the same shutdown.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	was := g.state
	g.state = stateEnding
	g.mu.Unlock()
	if was == stateEnding {
		select {
		case <-g.finished:
			return g.closed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.ready.Store(false)
	var err error
	if was == stateServing {
		err = g.drain(ctx)
		g.stop()
	} else {
		for _, f := range g.fronts {
			if f.bounded != nil {
				_ = f.bounded.Close()
			}
		}
	}
	g.running.Wait()
	for _, rt := range g.routes.all {
		for _, s := range rt.upstreams {
			err = errors.Join(err, s.forwarder.Close())
			if s.upgrades != nil {
				err = errors.Join(err, s.upgrades.Close())
			}
		}
	}
	g.closed = err
	close(g.finished)
	return err
}

func (g *Gateway) drain(ctx context.Context) error {
	err := clock.Sleep(ctx, clock.System, g.config.DrainDelay)
	g.draining.Store(true)
	if err == nil {
		g.stopAccepting()
		g.waitForLateRequests(ctx)
	}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, f := range g.fronts {
		all.Go(func() {
			err := f.server.Shutdown(ctx)
			if err != nil {
				_ = f.server.Close() // cuts off the remaining requests; err reports that
			}
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	all.Go(func() {
		grace, cancel := context.WithTimeout(ctx, g.config.UpgradeGrace)
		defer cancel()
		if g.tunnels.Wait(grace) != nil {
			g.tunnels.CloseAll()
		}
	})
	all.Wait()
	g.tunnels.CloseAll()                     // those that were opened meanwhile
	_ = g.tunnels.Wait(context.Background()) // they end at once, because both connections are closed
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// stopAccepting closes the listeners, after accepting the connections that the system has already established.
func (g *Gateway) stopAccepting() {
	for _, f := range g.fronts {
		if err := f.bounded.stopSoon(); err != nil {
			g.config.Logger.Warn("close listener", "address", f.config.Address, "err", err)
		}
	}
}

// waitForLateRequests leaves idle connections open for DrainLinger, because a request may be on its way. It returns
// early when no connection is left.
func (g *Gateway) waitForLateRequests(ctx context.Context) {
	const every = 5 * time.Millisecond
	for end := g.clock.Now() + g.config.DrainLinger; g.clock.Now() < end && g.conns.Open() > 0; {
		if clock.Sleep(ctx, clock.System, every) != nil {
			return
		}
	}
}
