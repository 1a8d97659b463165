package gateway

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Shutdown ends the gateway without failing a request. Ready is false at once. After Config.DrainDelay no connections are
// accepted any more; answers tell clients to come back on a new one (Connection: close, GOAWAY); requests in flight are
// finished; and upgraded connections are closed after Config.UpgradeGrace. If the context ends before that, what is left is
// cut off, and the error is the context's. Several calls wait for the same end.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	was := g.state
	g.state = isEnding
	g.mu.Unlock()
	if was == isEnding {
		select {
		case <-g.finished:
			return g.closed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.ready.Store(false)
	var err error
	if was == isServing {
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
		for _, s := range rt.servers {
			err = errors.Join(err, s.leg.Close())
			if s.tunnel != nil {
				err = errors.Join(err, s.tunnel.Close())
			}
		}
	}
	g.closed = err
	close(g.finished)
	return err
}

func (g *Gateway) drain(ctx context.Context) error {
	holds := wait(ctx, g.config.DrainDelay)
	g.draining.Store(true)
	if holds {
		g.stopAccepting()
		g.linger(ctx)
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
				_ = f.server.Close() // what is left is cut off, and err says so
			}
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	all.Go(func() {
		grace, cancel := context.WithTimeout(ctx, g.config.UpgradeGrace)
		defer cancel()
		if g.tunnels.wait(grace) != nil {
			g.tunnels.closeAll()
		}
	})
	all.Wait()
	g.tunnels.closeAll()                     // none that came late stays
	_ = g.tunnels.wait(context.Background()) // they end at once, as both their ends are closed
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// wait waits so long, and reports whether the context still holds.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopAccepting closes the listeners, after those have been accepted whose connection is there already.
func (g *Gateway) stopAccepting() {
	for _, f := range g.fronts {
		if err := f.bounded.stopSoon(); err != nil {
			g.config.Logger.Warn("close listener", "address", f.config.Address, "err", err)
		}
	}
}

// linger leaves connections open that are idle, for a client may just be sending a request on one. It is over when there are
// none left.
func (g *Gateway) linger(ctx context.Context) {
	const every = 5 * time.Millisecond
	for end := g.now() + g.config.DrainLinger; g.now() < end && g.conns.Open() > 0; {
		if !wait(ctx, every) {
			return
		}
	}
}
