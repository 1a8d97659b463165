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

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/accesslog"
	"github.com/headgate/headgate/server/gateway/internal/balance"
	"github.com/headgate/headgate/server/gateway/internal/lograte"
	"github.com/headgate/headgate/server/gateway/internal/tunnel"
	"github.com/headgate/headgate/server/gateway/internal/turns"
	"github.com/headgate/headgate/server/internal/conns"
)

// A Gateway is a reverse proxy. Create one with New, then call Serve. It is safe for concurrent use.
type Gateway struct {
	config       Config
	identity     *identity.Identifier
	routes       routeTable
	limited      http.Handler // Config.Limit around proxy
	idHeader     string
	via          []string // added to responses; nil for none
	proxyHeaders proxyHeaders
	clock        monotonicClock
	yieldAbove   int64 // with more requests in flight at an upstream, a request calls Gosched; see manyInFlight

	listeners    []*listenerServer
	conns        *conns.Conns // the clients' connections, over all listeners
	turns        turns.Queue  // limits how many connections are served at the same time; see package turns
	tunnels      *tunnel.Set
	counters     counters
	log          *accesslog.Logger // nil if nothing is logged
	clientErrors *lograte.Logger   // for errors that clients cause
	draining     atomic.Bool
	ready        atomic.Bool

	lifecycle
}

// lifecycle is the state of Serve and Shutdown.
type lifecycle struct {
	mu       sync.Mutex
	state    gatewayState
	stop     context.CancelFunc // ends the background goroutines
	running  sync.WaitGroup     // of the background goroutines
	started  chan struct{}      // closed when Serve serves requests
	finished chan struct{}      // closed when Shutdown has ended
	result   error              // the result of Shutdown; set before finished is closed
}

type gatewayState uint8

const (
	stateNew gatewayState = iota
	stateListening
	stateServing
	stateEnding
)

// ErrClosed is returned by Serve once Shutdown has been called.
var ErrClosed = errors.New("gateway: closed")

// clientErrorLines is the maximum number of log lines a second about errors that clients cause, such as failed
// handshakes.
const clientErrorLines = 10

// New returns a Gateway. It reads files, but does not listen yet. The error is that of Config.Validate.
func New(config Config) (*Gateway, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	g := &Gateway{
		config: config, identity: config.Identity, clock: monotonicClock{epoch: time.Now()},
		yieldAbove:   manyInFlight * int64(runtime.GOMAXPROCS(0)),
		idHeader:     textproto.CanonicalMIMEHeaderKey(config.RequestIDHeader),
		proxyHeaders: newProxyHeaders(config.OnlyFromProxies),
		tunnels: tunnel.NewSet(tunnel.Options{
			Max: int64(config.MaxUpgrades), IdleTimeout: config.StreamTimeout, MaxAge: config.MaxUpgradeAge,
		}),
		clientErrors: lograte.NewLogger(config.Logger, clientErrorLines),
		lifecycle:    lifecycle{started: make(chan struct{}), finished: make(chan struct{})},
	}
	if g.identity == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		g.identity = id
	}
	g.conns = conns.New(conns.Options{
		Name: "gateway", Max: config.MaxConns, PerAddress: config.MaxConnsPerAddress, Exempt: g.identity.IsProxy,
		Descriptors: config.Descriptors, Logger: config.Logger,
	})
	if config.Via != "" {
		g.via = []string{"1.1 " + config.Via}
	}
	all := make([]*route, len(config.Routes))
	for i := range config.Routes {
		var err error
		if all[i], err = g.newRoute(&config.Routes[i]); err != nil {
			return nil, err
		}
	}
	g.routes = newRouteTable(all)
	g.limited = http.HandlerFunc(g.proxy)
	if config.Limit != nil {
		g.limited = config.Limit(g.limited)
	}
	if config.AccessLog != nil {
		a := config.AccessLog
		g.log = accesslog.New(accesslog.Options{
			Logger: a.Logger, Batch: a.Batch, Every: a.Every, PerSecond: a.PerSecond, Queue: a.Queue,
		})
	}
	for i := range g.config.Listeners {
		ls, err := g.newListenerServer(&g.config.Listeners[i])
		if err != nil {
			return nil, err
		}
		g.listeners = append(g.listeners, ls)
	}
	return g, nil
}

var _ http.Handler = (*Gateway)(nil)

// Listen opens the listeners. Afterwards Addrs returns their addresses. Serve calls Listen if it was not called.
func (g *Gateway) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listen()
}

func (g *Gateway) listen() error {
	switch g.state {
	case stateNew:
	case stateEnding:
		return ErrClosed
	default:
		return nil
	}
	for i, ls := range g.listeners {
		if err := g.open(ls); err != nil {
			for _, opened := range g.listeners[:i] {
				_ = opened.bounded.Close()
			}
			return err
		}
	}
	g.state = stateListening
	return nil
}

// Addrs returns the addresses of the listeners, in the order of the Config. Before Listen there are none.
func (g *Gateway) Addrs() []net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	var addrs []net.Addr
	for _, ls := range g.listeners {
		if ls.bounded != nil {
			addrs = append(addrs, ls.bounded.Addr())
		}
	}
	return addrs
}

// Ready reports whether load balancers should send requests to the gateway. It becomes false when Shutdown is called or
// the context of Serve ends. The gateway still serves requests for a while then.
func (g *Gateway) Ready() bool { return g.ready.Load() }

// Started returns a channel that is closed when Serve serves requests. If Serve fails, it is never closed.
func (g *Gateway) Started() <-chan struct{} { return g.started }

// Serve serves requests until the context ends or Shutdown is called, and returns when the shutdown has ended. When the
// context ends, Serve calls Shutdown with a timeout of Config.DrainTimeout. The error is nil if no request was cut off.
func (g *Gateway) Serve(ctx context.Context) error {
	serveErrs, err := g.start()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-serveErrs:
	case <-g.finished:
		return g.result
	}
	drainCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.config.DrainTimeout)
	defer cancel()
	return errors.Join(err, g.Shutdown(drainCtx))
}

// start starts the background goroutines. If a listener fails, its error is sent to the channel.
func (g *Gateway) start() (<-chan error, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.listen(); err != nil {
		return nil, err
	}
	if g.state != stateListening {
		return nil, errors.New("gateway: Serve is running already")
	}
	g.state = stateServing
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	serveErrs := make(chan error, len(g.listeners))
	for _, ls := range g.listeners {
		g.running.Go(func() {
			if err := ls.serve(); !errors.Is(err, http.ErrServerClosed) && !g.draining.Load() {
				serveErrs <- fmt.Errorf("gateway: listener %s: %w", ls.config.Address, err)
			}
		})
		if ls.certificates != nil {
			g.running.Go(func() { ls.certificates.Watch(ctx, ls.config.TLS.CheckFilesEvery, g.config.Logger) })
		}
	}
	for _, rt := range g.routes.all {
		if rt.config.Health == nil {
			continue
		}
		for _, s := range rt.upstreams {
			g.running.Go(func() { g.watchHealth(ctx, rt, s) })
		}
	}
	if g.log != nil {
		g.running.Go(func() { g.log.Run(ctx) })
	}
	g.ready.Store(true)
	close(g.started)
	return serveErrs, nil
}

// A monotonicClock measures the time since it was started. It never returns 0, which fields use for "not set".
type monotonicClock struct{ epoch time.Time }

var _ balance.Clock = (*monotonicClock)(nil)

// Now returns the time since the clock was started.
func (c *monotonicClock) Now() time.Duration { return time.Since(c.epoch) + 1 }

// at converts a time of this clock to a time of day.
func (c *monotonicClock) at(moment time.Duration) time.Time { return c.epoch.Add(moment) }

// AdjustTurns adapts the number of connections that are served at the same time to the load. busy is the share of the
// cores' time that this process uses, from 0 to 1. If AdjustTurns is never called, the number is not limited.
func (g *Gateway) AdjustTurns(busy float64) { g.turns.Adjust(busy) }
