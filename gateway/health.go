package gateway

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// watchHealth checks an upstream until the gateway ends.
func (g *Gateway) watchHealth(ctx context.Context, rt *route, s *upstreamServer) {
	h := rt.config.Health
	client := newTransport(rt, s.target, s.tls)
	client.rt.DisableKeepAlives = !s.target.http2 // a check also reports whether it can be connected to
	defer client.rt.CloseIdleConnections()
	// The first is at once, but many gateways that start together do not ask together.
	wait := time.Duration(rand.Int64N(int64(h.Interval/10) + 1))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := check(ctx, client, rt, s)
		if ctx.Err() != nil {
			return
		}
		if s.checkedWith(rt, err, g.now()) {
			if err != nil {
				g.config.Logger.Warn("upstream is down", "route", rt.config.Name, "upstream", s.url, "err", err)
			} else {
				g.config.Logger.Info("upstream is back", "route", rt.config.Name, "upstream", s.url)
			}
		}
		// A tenth more or less.
		wait = h.Interval - h.Interval/10 + time.Duration(rand.Int64N(int64(h.Interval/5)+1))
	}
}

// check asks an upstream how it is.
func check(ctx context.Context, client *transport, rt *route, s *upstreamServer) error {
	h := rt.config.Health
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, client.base()+h.Path, http.NoBody)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	r.Host = h.Host
	if r.Host == "" {
		r.Host = s.target.host
	}
	r.Header.Set("User-Agent", "headgate-health")
	answer, err := client.rt.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // the status has said it all
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("check health: the answer to %s is %s", h.Path, answer.Status)
	}
	return nil
}
