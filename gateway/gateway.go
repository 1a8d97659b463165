package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/conns"
)

// A Gateway is a reverse proxy. Make one with New, then call Serve. It is safe for concurrent use.
type Gateway struct {
	config       Config
	identity     *identity.Identifier
	routes       routes
	limited      http.Handler // the limiter around the proxy
	keeps        bool         // nothing stands between us and a limiter that keeps what it needs between requests
	idHeader     string
	via          []string // what is added to answers; nil for nothing
	proxyHeaders proxyHeaders
	epoch        time.Time // when the clock began
	crowd        int64     // how many requests at an upstream are many
	timed        bool      // somebody wants to know how long requests take

	fronts   []*frontServer
	conns    *conns.Conns // of clients, over all listeners
	tunnels  tunnels
	figures  figures
	log      *accessLogger // nil if nothing is logged
	noise    *noise
	draining atomic.Bool
	ready    atomic.Bool

	mu       sync.Mutex
	state    gatewayState
	stop     context.CancelFunc // ends what runs in the background
	running  sync.WaitGroup     // what does
	started  chan struct{}      // closed when Serve serves
	finished chan struct{}      // closed when Shutdown is through
	closed   error              // what came of that
}

type gatewayState uint8

const (
	isNew gatewayState = iota
	isListening
	isServing
	isEnding
)

// ErrClosed is returned by Serve once Shutdown has been called.
var ErrClosed = errors.New("gateway: closed")

// New returns a Gateway. It reads files, but does not listen yet. The error is that of Config.Validate.
func New(config Config) (*Gateway, error) {
	config.fill()
	if err := config.check(); err != nil {
		return nil, err
	}
	g := &Gateway{
		config: config, identity: config.Identity, epoch: time.Now(),
		crowd:        crowded * int64(runtime.GOMAXPROCS(0)),
		idHeader:     textproto.CanonicalMIMEHeaderKey(config.RequestIDHeader),
		proxyHeaders: newProxyHeaders(config.OnlyFromProxies),
		tunnels:      tunnels{most: int64(config.MaxUpgrades)},
		noise:        newNoise(config.Logger),
		started:      make(chan struct{}),
		finished:     make(chan struct{}),
		timed:        config.Observe != nil || config.AccessLog != nil,
	}
	if g.identity == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		g.identity = id
	}
	g.conns = conns.New(conns.Options{
		Name: "gateway", Most: config.MaxConns, PerAddress: config.MaxConnsPerAddress, Exempt: g.identity.IsProxy,
		Descriptors: config.Descriptors, Logger: config.Logger,
	})
	if config.Via != "" {
		g.via = []string{"1.1 " + config.Via}
	}
	if err := g.makeRoutes(); err != nil {
		return nil, err
	}
	g.limited = http.HandlerFunc(g.proxy)
	if config.Limit != nil {
		g.limited = config.Limit(g.limited)
		_, g.keeps = g.limited.(httplimit.StateKeeper)
	}
	if config.AccessLog != nil {
		g.log = newAccessLogger(config.AccessLog)
	}
	for i := range g.config.Listeners {
		f, err := g.newFront(&g.config.Listeners[i])
		if err != nil {
			return nil, err
		}
		g.fronts = append(g.fronts, f)
	}
	return g, nil
}

func (g *Gateway) makeRoutes() error {
	all := make([]*route, len(g.config.Routes))
	for i := range g.config.Routes {
		rt := &route{config: &g.config.Routes[i], stall: g.config.StreamTimeout}
		if len(rt.config.Upstreams) == 1 {
			rt.config.Ejection.After = -1 // there is nobody else to ask
		}
		for j := range rt.config.Upstreams {
			s, err := g.newServer(rt, &rt.config.Upstreams[j])
			if err != nil {
				return err
			}
			rt.servers = append(rt.servers, s)
		}
		rt.uploads.most = rt.uploadsPerClient()
		all[i] = rt
	}
	g.routes = newRoutes(all)
	return nil
}

// now is the gateway's clock, by which it measures times. It never stands still or steps back.
func (g *Gateway) now() time.Duration { return time.Since(g.epoch) + 1 }

// Handler returns what serves requests, for those who have a server of their own. Bounds that concern connections are then
// that server's.
func (g *Gateway) Handler() http.Handler { return g }

var _ http.Handler = (*Gateway)(nil)

// Listen opens the listeners, and from then on the addresses are known. Serve does so too if it was not done.
func (g *Gateway) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listen()
}

func (g *Gateway) listen() error {
	switch g.state {
	case isNew:
	case isEnding:
		return ErrClosed
	default:
		return nil
	}
	for i, f := range g.fronts {
		if err := g.open(f); err != nil {
			for _, opened := range g.fronts[:i] {
				_ = opened.bounded.Close()
			}
			return err
		}
	}
	g.state = isListening
	return nil
}

// Addrs returns the addresses that the listeners have, in their order. Before Listen there are none.
func (g *Gateway) Addrs() []net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	var addrs []net.Addr
	for _, f := range g.fronts {
		if f.bounded != nil {
			addrs = append(addrs, f.bounded.Addr())
		}
	}
	return addrs
}

// Ready reports whether the gateway serves and will go on doing so. It is false from the moment that Shutdown is called, or
// that the context of Serve ends, while requests are still served for a while.
func (g *Gateway) Ready() bool { return g.ready.Load() }

// Started is closed as soon as Serve serves. If that fails it never is.
func (g *Gateway) Started() <-chan struct{} { return g.started }

// Serve serves until the context ends, or Shutdown is called, and returns when all is over. If the context ends, it drains
// as Shutdown does, for at most Config.DrainTimeout. The error is nil if no request was cut off.
func (g *Gateway) Serve(ctx context.Context) error {
	failed, err := g.start()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.config.DrainTimeout)
		defer cancel()
		return g.Shutdown(limit)
	case err := <-failed:
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.config.DrainTimeout)
		defer cancel()
		return errors.Join(err, g.Shutdown(limit))
	case <-g.finished:
		return g.closed
	}
}

// start starts all that runs. The channel hears of a listener that fails.
func (g *Gateway) start() (<-chan error, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.listen(); err != nil {
		return nil, err
	}
	if g.state != isListening {
		return nil, errors.New("gateway: Serve is running already")
	}
	g.state = isServing
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	failed := make(chan error, len(g.fronts))
	for _, f := range g.fronts {
		g.running.Go(func() {
			if err := f.serve(); !errors.Is(err, http.ErrServerClosed) && !g.draining.Load() {
				failed <- fmt.Errorf("gateway: listener %s: %w", f.config.Address, err)
			}
		})
		if f.certificates != nil {
			g.running.Go(func() { g.watchCertificates(ctx, f.certificates, f.config.TLS.CheckFiles) })
		}
	}
	for _, rt := range g.routes.all {
		if rt.config.Health == nil {
			continue
		}
		for _, s := range rt.servers {
			g.running.Go(func() { g.watchHealth(ctx, rt, s) })
		}
	}
	if g.log != nil {
		g.running.Go(func() { g.log.run(ctx) })
	}
	g.ready.Store(true)
	close(g.started)
	return failed, nil
}
