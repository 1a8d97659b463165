package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/gateway/upstream"
)

// A leg sends requests to one upstream, and its answers to the client. Package upstream has the one for HTTP/1.1; HTTP/2 and
// upgrades go over net/http. The errors of all are *upstream.Error.
type leg interface {
	Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, head upstream.Head) (upstream.Outcome, error)
	// Close closes what is idle. What is under way is finished.
	Close() error
}

var (
	_ leg = (*upstream.Pool)(nil)
	_ leg = (*transport)(nil)
)

// newServer makes an upstream of a route ready.
func (g *Gateway) newServer(rt *route, u *Upstream) (*upstreamServer, error) {
	t, err := u.target()
	if err != nil {
		return nil, err
	}
	s := &upstreamServer{url: u.URL, target: t, told: pace{most: 1}}
	if t.secure {
		if s.tls, err = u.TLS.config(t.name); err != nil {
			return nil, err
		}
	}
	if t.http2 {
		s.leg = newTransport(rt, t, s.tls)
		return s, nil
	}
	s.tunnel = newTransport(rt, t, s.tls)
	address := t.address
	if t.network == "unix" {
		address = "unix:" + address
	}
	pool, err := upstream.New(upstream.Config{
		Address: address, TLS: s.tls,
		DialTimeout: rt.config.DialTimeout, HeaderTimeout: rt.config.ResponseHeaderTimeout,
		StallTimeout: g.config.StreamTimeout, IdleTimeout: rt.config.UpstreamIdle,
		WaitTimeout: rt.config.DialTimeout, MaxConns: rt.config.UpstreamConns, MaxIdle: rt.config.UpstreamConns,
		MaxWaiting: 4 * rt.config.UpstreamConns,
	})
	if err != nil {
		return nil, fmt.Errorf("gateway: upstream %s: %w", u.URL, err)
	}
	s.leg = pool
	return s, nil
}
