// Package target gets decisions from different limiters: a store in this process, a store in Redis, or a node over
// HTTP, gRPC or RESP.
package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// Memory is the address of a store in this process.
const Memory = "memory"

// An Outcome is the decision about one request.
type Outcome struct {
	// Allowed reports whether the request is allowed, after Delay.
	Allowed bool
	// Degraded reports whether a policy decided because the store or the service was unreachable.
	Degraded bool
	// Delay is the time after which an allowed request may continue.
	Delay time.Duration
	// RetryAfter is the time after which a denied request may be allowed.
	RetryAfter time.Duration
	// Coarse reports whether RetryAfter is rounded up to whole seconds, so that the request may be allowed much earlier.
	Coarse bool
}

// A Target decides requests. It is safe for concurrent use.
type Target interface {
	// Take requests one unit for a client. The context must have a deadline.
	Take(ctx context.Context, client string) (Outcome, error)
	// Close ends connections.
	Close() error
}

// Options configure a Target.
type Options struct {
	// Address is Memory, or a URL: http://host/v1/ratelimit for the decision API, any other http:// URL for a gateway,
	// grpc://host:port, redis://host:port for RESP, or redis-store://host:port for a store in Redis.
	Address string
	// Rule is the ID of the rule to apply. It is only for gRPC, RESP and the decision API, which requires it.
	Rule string
	// Limit is the limit to apply if there is no Rule. It is for a store in this process or in Redis, gRPC and RESP.
	Limit headgate.Limit
	// Token authenticates to the decision service. Default none.
	Token string
	// Connections is the maximum number of connections. Default 1.
	Connections int
	// Now is the clock of a store in this process. Default time.Now.
	Now func() time.Time
}

// Addresses has an example of each kind of address, for help texts and completion.
var Addresses = []string{
	Memory, "http://127.0.0.1:8081/v1/ratelimit", "http://127.0.0.1:8080/", "grpc://127.0.0.1:8082",
	"redis://127.0.0.1:8083", "redis-store://127.0.0.1:6379",
}

// Open connects to a target.
func Open(ctx context.Context, o Options) (Target, error) {
	o.Connections = max(o.Connections, 1)
	if o.Address == Memory {
		if err := o.refuseRule(); err != nil {
			return nil, err
		}
		if err := o.Limit.Validate(); err != nil {
			return nil, err
		}
		store, err := memstore.New(memstore.Options{Now: o.Now})
		if err != nil {
			return nil, err
		}
		return &limiterTarget{limiter: store, limit: o.Limit, closer: store.Close}, nil
	}
	u, err := url.Parse(o.Address)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("target %q: want %s", o.Address, strings.Join(Addresses, ", "))
	}
	switch u.Scheme {
	case "http", "https":
		return openHTTP(u, o)
	case "grpc":
		return openGRPC(u, o)
	case "redis":
		return openRESP(u, o)
	case "redis-store":
		return openRedisStore(ctx, u, o)
	}
	return nil, fmt.Errorf("target %q: want %s", o.Address, strings.Join(Addresses, ", "))
}

// IsGateway reports whether an address is that of a gateway. Responses of a gateway include the time of the service.
func IsGateway(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Path != decisionPath
}

// HasLimit reports whether Options.Limit applies at this target. Otherwise a rule of the target applies.
func HasLimit(address, rule string) bool {
	return rule == "" && !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://")
}

func (o Options) refuseRule() error {
	if o.Rule != "" {
		return fmt.Errorf("target %s has no rules: want no rule, got %q", o.Address, o.Rule)
	}
	return nil
}

// A limiterTarget gets decisions from a headgate.Limiter.
type limiterTarget struct {
	limiter headgate.Limiter
	limit   headgate.Limit
	closer  func() error
}

var _ Target = (*limiterTarget)(nil)

func (t *limiterTarget) Take(ctx context.Context, client string) (Outcome, error) {
	d, err := t.limiter.Take(ctx, headgate.Check{Key: client, Limit: t.limit, Cost: 1})
	return Outcome{Allowed: d.Allowed, Degraded: d.Degraded, Delay: d.Delay, RetryAfter: d.RetryAfter}, err
}

func (t *limiterTarget) Close() error { return t.closer() }

// dialTimeout limits the time to connect to a target.
const dialTimeout = 5 * time.Second

func openRedisStore(ctx context.Context, u *url.URL, o Options) (Target, error) {
	if err := o.refuseRule(); err != nil {
		return nil, err
	}
	if err := o.Limit.Validate(); err != nil {
		return nil, err
	}
	address := *u
	address.Scheme = "redis"
	store, err := OpenRedis(ctx, address.String(), "headgate-bench")
	if err != nil {
		return nil, err
	}
	return &limiterTarget{limiter: store, limit: o.Limit, closer: store.Close}, nil
}

// OpenRedis opens a store for a measurement. It logs nothing: an error is all that a caller of a command needs.
func OpenRedis(ctx context.Context, url, prefix string) (*redisstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	store, err := redisstore.Open(ctx, url, redisstore.Options{Prefix: prefix, Logger: slog.New(slog.DiscardHandler)})
	var e *redisstore.ServerError
	if errors.As(err, &e) && !e.Permanent {
		shown := *e
		shown.Fix = "check that it runs, and that this host reaches it" // instead of an option of Go programs
		return nil, &shown
	}
	return store, err
}
