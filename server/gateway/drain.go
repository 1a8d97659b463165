package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// Shutdown ends the gateway without failing a request. Ready becomes false immediately. After Config.DrainDelay, the
// gateway accepts no more connections, and its responses tell clients to use a new connection (Connection: close,
// GOAWAY). It finishes the requests in flight, and closes upgraded connections after Config.UpgradeGrace. If the
// context ends first, it cuts off the remaining requests and returns the error of the context. Concurrent calls wait
// for the same shutdown.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	oldState := g.state
	g.state = stateEnding
	g.mu.Unlock()
	if oldState == stateEnding {
		select {
		case <-g.finished:
			return g.result
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.ready.Store(false)
	var err error
	if oldState == stateServing {
		err = g.drain(ctx)
		g.stop()
	} else {
		for _, ls := range g.listeners {
			if ls.bounded != nil {
				_ = ls.bounded.Close()
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
	g.result = err
	close(g.finished)
	return err
}

func (g *Gateway) drain(ctx context.Context) error {
	err := clock.Sleep(ctx, clock.System, g.config.DrainDelay) // its error is that of ctx, which is checked at the end
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
	for _, ls := range g.listeners {
		all.Go(func() {
			err := ls.server.Shutdown(ctx)
			if err != nil {
				_ = ls.server.Close() // cuts off the remaining requests; err reports that
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
	g.tunnels.CloseAll()                     // tunnels that were opened meanwhile
	_ = g.tunnels.Wait(context.Background()) // all tunnels end soon, because their connections are closed
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// stopAccepting closes the listeners. It first accepts the connections that the operating system has already
// established.
func (g *Gateway) stopAccepting() {
	for _, ls := range g.listeners {
		if err := ls.bounded.finishAccepting(); err != nil {
			g.config.Logger.Warn("close listener", "address", ls.config.Address, "err", err)
		}
	}
}

// waitForLateRequests leaves idle connections open for DrainLinger, because requests may be in transit. It returns
// early when no connection is open.
func (g *Gateway) waitForLateRequests(ctx context.Context) {
	const pollInterval = 5 * time.Millisecond
	for end := g.clock.Now() + g.config.DrainLinger; g.clock.Now() < end && g.conns.Open() > 0; {
		if clock.Sleep(ctx, clock.System, pollInterval) != nil {
			return
		}
	}
}
