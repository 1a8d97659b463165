package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/headgate/headgate/identity"
)

const (
	// proxySampleInterval is the interval at which one request is checked for an untrusted load balancer.
	proxySampleInterval = 100 * time.Millisecond
	// proxyWarnInterval is the time between two warnings in the log.
	proxyWarnInterval = time.Hour
	// maxProxyNames is the maximum number of load balancers that a warning lists.
	maxProxyNames = 4
)

// watchProxies checks samples of requests for load balancers that are not trusted, and logs their addresses, until ctx
// ends.
func watchProxies(ctx context.Context, id *identity.Identifier, log *slog.Logger) {
	tick := time.NewTicker(proxySampleInterval)
	defer tick.Stop()
	var lastLogged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			id.SampleProxies()
			if !lastLogged.IsZero() && now.Sub(lastLogged) < proxyWarnInterval {
				continue
			}
			if text := proxyWarning(id); text != "" {
				log.Warn(text)
				lastLogged = now
			}
		}
	}
}

// proxyWarning returns a warning if requests come through load balancers that are not trusted, or "".
func proxyWarning(id *identity.Identifier) string {
	found, ok := id.UntrustedProxies()
	if !ok {
		return ""
	}
	listed := found.Peers[:min(len(found.Peers), maxProxyNames)]
	var names []string
	for _, addr := range listed {
		if addr.IsValid() {
			names = append(names, addr.String())
		} else {
			names = append(names, "a Unix socket")
		}
	}
	if more := len(found.Peers) - len(listed); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("requests with %s come from %s, which --trusted-proxies does not list: all clients behind such an "+
		"address share its limits; if these are your load balancers, add them to --trusted-proxies",
		found.Header, strings.Join(names, ", "))
}
