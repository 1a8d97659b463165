package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/balance"
	"github.com/headgate/headgate/server/gateway/internal/lograte"
	"github.com/headgate/headgate/server/gateway/internal/transport"
	"github.com/headgate/headgate/server/gateway/upstream"
)

// A route is a Route with its upstreams.
type route struct {
	config    *Route
	upstreams []*upstreamServer
	balance   *balance.Group // identifies upstreams by their index in upstreams
	uploads   uploads        // uploads to HTTP/1.1 upstreams
}

// An upstreamServer is one upstream of one route.
type upstreamServer struct {
	url       string
	index     int // in route.upstreams
	target    transport.Target
	tls       *tls.Config // nil without TLS
	forwarder forwarder
	upgrades  *transport.Transport // sends upgrades; nil if the upstream speaks HTTP/2

	inFlight, upgraded, requests atomic.Int64 // inFlight includes upgraded
	faults                       [faultKinds]atomic.Int64

	mu       sync.Mutex
	failures lograte.Limit // limits the log lines about failed requests
}

// faultKinds is the length of arrays that are indexed by upstream.Fault. It is greater than the largest Fault.
const faultKinds = 16

// A forwarder sends requests to one upstream, and the responses of the upstream to clients. Its errors are
// *upstream.Error.
type forwarder interface {
	Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, head upstream.Head) (upstream.Outcome, error)
	// Close closes idle connections. Requests in flight are finished.
	Close() error
}

var (
	_ forwarder = (*upstream.Pool)(nil)       // HTTP/1.1
	_ forwarder = (*transport.Transport)(nil) // HTTP/2
)

func (g *Gateway) newRoute(config *Route) (*route, error) {
	rt := &route{config: config}
	options := balance.Options{
		EjectAfter: config.Ejection.After, EjectFor: config.Ejection.For, SlowReturn: config.Ejection.SlowReturn,
	}
	if len(config.Upstreams) == 1 {
		options.EjectAfter = -1
	}
	if config.Health != nil {
		options.DownAfter, options.UpAfter = config.Health.Failures, config.Health.Successes
	}
	rt.balance = balance.New(len(config.Upstreams), options)
	for i := range config.Upstreams {
		s, err := g.newUpstream(config, i)
		if err != nil {
			return nil, err
		}
		rt.upstreams = append(rt.upstreams, s)
	}
	rt.uploads.max = rt.uploadsPerClient()
	return rt, nil
}

func (g *Gateway) newUpstream(config *Route, i int) (*upstreamServer, error) {
	u := &config.Upstreams[i]
	target, err := transport.ParseTarget(u.URL)
	if err != nil {
		return nil, err
	}
	s := &upstreamServer{url: u.URL, index: i, target: target, failures: lograte.PerSecond(1)}
	if target.TLS {
		if s.tls, err = u.TLS.config(target.Name); err != nil {
			return nil, err
		}
	}
	if target.HTTP2 {
		s.forwarder = g.newTransport(config, s)
		return s, nil
	}
	s.upgrades = g.newTransport(config, s)
	address := target.Address
	if target.Network == "unix" {
		address = "unix:" + address
	}
	pool, err := upstream.New(upstream.Config{
		Address: address, TLS: s.tls,
		DialTimeout: config.DialTimeout, HeaderTimeout: config.ResponseHeaderTimeout,
		StallTimeout: g.config.StreamTimeout, IdleTimeout: config.UpstreamIdle,
		WaitTimeout: config.DialTimeout, MaxConns: config.UpstreamConns, MaxWaiting: 4 * config.UpstreamConns,
	})
	if err != nil {
		return nil, fmt.Errorf("gateway: upstream %s: %w", u.URL, err)
	}
	s.forwarder = pool
	return s, nil
}

func (g *Gateway) newTransport(config *Route, s *upstreamServer) *transport.Transport {
	return transport.New(transportOptions(config, s, g.config.StreamTimeout))
}

func transportOptions(config *Route, s *upstreamServer, stall time.Duration) transport.Options {
	return transport.Options{
		Target: s.target, TLS: s.tls, DialTimeout: config.DialTimeout, HeaderTimeout: config.ResponseHeaderTimeout,
		StallTimeout: stall, IdleTimeout: config.UpstreamIdle, MaxIdle: config.UpstreamConns,
	}
}

// pick chooses an upstream that was not tried before, or returns nil if there is none.
func (rt *route) pick(c balance.Clock, tried balance.Tried) *upstreamServer {
	if i := rt.balance.Pick(c, tried); i >= 0 {
		return rt.upstreams[i]
	}
	return nil
}

// recordResponse records the status of an upstream's response, and reports whether that ejected the upstream.
func (rt *route) recordResponse(s *upstreamServer, status int, c balance.Clock) (ejected bool) {
	if status >= http.StatusInternalServerError && rt.config.Ejection.Count5xx {
		return rt.balance.Failed(s.index, nil, c.Now())
	}
	rt.balance.Succeeded(s.index)
	return false
}

// retryAfter returns when a client should retry if no upstream is up.
func (rt *route) retryAfter() time.Duration {
	if rt.config.Health == nil {
		return time.Second
	}
	return rt.config.Health.Interval
}

// mayLogFailure reports whether a failed request may be logged; it allows one line a second. dropped is the number of
// failed requests that were not logged since the last line.
func (s *upstreamServer) mayLogFailure(now time.Time) (ok bool, dropped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures.Allow(now)
}

// countsAgainstUpstream reports whether an error counts against the upstream.
func countsAgainstUpstream(err error) bool {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Fault {
	case upstream.FaultDial, upstream.FaultBroken, upstream.FaultResponse, upstream.FaultTimeout, upstream.FaultUpgrade:
		return true
	default:
		return false
	}
}
