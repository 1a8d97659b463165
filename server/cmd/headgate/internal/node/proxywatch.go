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
	// proxySample is the time between two requests that are checked for an untrusted load balancer.
	proxySample = 100 * time.Millisecond
	// proxyRepeat is the time between two warnings in the log.
	proxyRepeat = time.Hour
	// proxyNames is the number of load balancers that a warning lists.
	proxyNames = 4
)

// watchProxies samples requests and logs load balancers that are not trusted, until ctx ends.
func watchProxies(ctx context.Context, id *identity.Identifier, log *slog.Logger) {
	tick := time.NewTicker(proxySample)
	defer tick.Stop()
	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			id.SampleProxies()
			if !logged.IsZero() && now.Sub(logged) < proxyRepeat {
				continue
			}
			if text := untrustedProxies(id); text != "" {
				log.Warn(text)
				logged = now
			}
		}
	}
}

// untrustedProxies returns a warning if requests come through load balancers that are not trusted, else nothing.
func untrustedProxies(id *identity.Identifier) string {
	found, ok := id.UntrustedProxies()
	if !ok {
		return ""
	}
	var names []string
	for _, addr := range found.Peers {
		switch {
		case len(names) == proxyNames:
			names = append(names, fmt.Sprintf("%d more", len(found.Peers)-proxyNames))
		case len(names) > proxyNames: // part of "more"
		case addr.IsValid():
			names = append(names, addr.String())
		default:
			names = append(names, "a Unix socket")
		}
	}
	return fmt.Sprintf("requests with %s come from %s, not in --trusted-proxies: all clients behind an address share its limits; "+
		"if these are your load balancers, list them in --trusted-proxies", found.Header, strings.Join(names, ", "))
}
