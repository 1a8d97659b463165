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
	// proxySampleInterval is how often a request is checked for an untrusted load balancer.
	proxySampleInterval = 100 * time.Millisecond
	// proxyWarnInterval is the time between two warnings in the log.
	proxyWarnInterval = time.Hour
	// maxProxyNames is the maximum number of load balancers that a warning lists.
	maxProxyNames = 4
)

// watchProxies samples requests and logs load balancers that are not trusted, until ctx ends.
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

// untrustedProxies returns a warning if requests come through load balancers that are not trusted, or "".
func proxyWarning(id *identity.Identifier) string {
	found, ok := id.UntrustedProxies()
	if !ok {
		return ""
	}
	var names []string
	for _, addr := range found.Peers {
		switch {
		case len(names) == maxProxyNames:
			names = append(names, fmt.Sprintf("%d more", len(found.Peers)-maxProxyNames))
		case len(names) > maxProxyNames: // part of "more"
		case addr.IsValid():
			names = append(names, addr.String())
		default:
			names = append(names, "a Unix socket")
		}
	}
	return fmt.Sprintf("requests with %s come from %s, not in --trusted-proxies: all clients behind an address share its "+
		"limits; if these are your load balancers, list them in --trusted-proxies", found.Header, strings.Join(names, ", "))
}
