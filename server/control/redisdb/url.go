package redisdb

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/redisurl"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// parseURL parses a URL and returns its display name. No error contains a password.
func parseURL(raw string) (o rueidis.ClientOption, name string, err error) {
	e, err := redisurl.Parse(raw)
	if err != nil {
		return o, "", fmt.Errorf("open Redis: %w", err)
	}
	o = rueidis.ClientOption{
		InitAddress: e.Addrs, Username: e.Login.User, Password: e.Login.Password, SelectDB: e.DB, TLSConfig: e.TLS,
		AlwaysRESP2: e.RESP2, ClientName: "headgate-rules", RetryDelay: retryDelay,
		DisableCache: true, ForceSingleClient: e.Kind == redisurl.Standalone,
		ConnWriteTimeout: cmp.Or(e.HangTimeout, tables.CallTimeout),
		Dialer:           net.Dialer{Timeout: cmp.Or(e.DialTimeout, connectTimeout)},
	}
	if e.Network == "unix" {
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	if e.Kind == redisurl.Sentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: e.Master, Username: e.Sentinel.User, Password: e.Sentinel.Password, Dialer: o.Dialer,
			ClientName: o.ClientName, TLSConfig: e.TLS,
		}
	}
	return o, displayURL(raw, e), nil
}

// displayURL returns a URL without its secrets.
func displayURL(raw string, e *redisurl.Endpoint) string {
	scheme, _, _ := strings.Cut(raw, "://")
	parts := []string{scheme + "://" + strings.Join(e.Addrs, ",")}
	if e.Master != "" {
		parts = append(parts, e.Master)
	}
	if e.DB != 0 {
		parts = append(parts, strconv.Itoa(e.DB))
	}
	if len(parts) == 1 && e.Network != "unix" {
		parts = append(parts, "")
	}
	return strings.Join(parts, "/")
}

// retryDelay returns the pause before a failed read is sent again. After five retries, it returns a negative number to
// give up. The pauses together last longer than a restart of a server.
func retryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > 5 {
		return -1
	}
	return 10 * time.Millisecond << attempts
}
