package gateway

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/transport"
)

// watchHealth checks an upstream regularly until the context ends.
func (g *Gateway) watchHealth(ctx context.Context, rt *route, s *upstreamServer) {
	h := rt.config.Health
	options := transportOptions(rt.config, s, g.config.StreamTimeout)
	options.DisableKeepAlives = true // a check also tests that the upstream accepts connections
	client := transport.New(options)
	defer func() { _ = client.Close() }()
	// The first wait is random, so that gateways that start at the same time do not check at the same time.
	wait := time.Duration(rand.Int64N(int64(h.Interval/10) + 1))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := checkHealth(ctx, client, h)
		if ctx.Err() != nil {
			return
		}
		if changed := rt.balance.RecordCheck(s.index, err, g.clock.Now()); changed {
			if err != nil {
				g.config.Logger.Warn("upstream is down", "route", rt.config.Name, "upstream", s.url, "err", err)
			} else {
				g.config.Logger.Info("upstream is up again", "route", rt.config.Name, "upstream", s.url)
			}
		}
		// Wait for the interval, plus or minus a tenth.
		wait = h.Interval - h.Interval/10 + time.Duration(rand.Int64N(int64(h.Interval/5)+1))
	}
}

func checkHealth(ctx context.Context, client *transport.Transport, h *Health) error {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	return client.CheckHealth(ctx, h.Path, h.Host)
}
