package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// Defaults of a Config.
const (
	DefaultAddress       = ":8080"
	DefaultHeaderTimeout = 10 * time.Second
	DefaultIdleTimeout   = 2 * time.Minute
	DefaultBodyTimeout   = 30 * time.Second
	DefaultWriteTimeout  = 30 * time.Second
	DefaultStreamTimeout = time.Hour
	DefaultMinBodyRate   = 128
	DefaultMaxHeader     = 64 << 10
	DefaultMaxConns      = 10_000
	DefaultMaxStreams    = 250
	DefaultMaxUpgrades   = 10_000
	DefaultDrainLinger   = time.Second
	DefaultUpgradeGrace  = 10 * time.Second
	DefaultDrainTimeout  = 30 * time.Second
	DefaultRequestID     = "X-Request-ID"
)

// Config configures a Gateway. At least one route is required.
type Config struct {
	// Listeners accept the connections of clients. Default one without TLS on DefaultAddress.
	Listeners []Listener
	// Routes select the upstreams of a request. At least one is required.
	Routes []Route
	// Limit wraps the handler that forwards requests. Its requests have the path, host and headers that are forwarded. If
	// it passes its own ResponseWriter to the wrapped handler, that writer must have the method Unwrap. Default nil: all
	// requests are allowed.
	Limit func(http.Handler) http.Handler
	// Identity identifies clients and trusted proxies, and converts paths to their canonical form. Limit should use the
	// same Identifier. Default the Identifier of the zero identity.Config, which trusts no proxy.
	Identity *identity.Identifier

	// HeaderTimeout is the maximum time to receive the header of a request, and the TLS handshake. Default
	// DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// IdleTimeout is the maximum time for which a connection may wait for its next request. Default DefaultIdleTimeout.
	IdleTimeout time.Duration
	// BodyTimeout is the maximum time for which a client may pause while it sends a body. Default DefaultBodyTimeout.
	BodyTimeout time.Duration
	// MinBodyRate is the minimum average rate in bytes per second at which a client must send a body, after an initial
	// time of BodyTimeout. It does not apply to streams, which are gRPC calls and bodies whose response has begun.
	// Default DefaultMinBodyRate; negative for none.
	MinBodyRate int
	// WriteTimeout is the maximum time for which a client may accept no bytes of a response. Default DefaultWriteTimeout.
	WriteTimeout time.Duration
	// StreamTimeout is the maximum time for which streams and upgraded connections may be silent. Default
	// DefaultStreamTimeout.
	StreamTimeout time.Duration

	// MaxUpgradeAge is the maximum lifetime of an upgraded connection. If a concurrency limit applies to upgrades, its
	// slots should expire after the same time. Default 0: no maximum.
	MaxUpgradeAge time.Duration

	// MaxHeader is the maximum size of a request's header in bytes, including the request line. Larger ones get a 431.
	// Default DefaultMaxHeader.
	MaxHeader int
	// MaxBody is the maximum size of a request's body in bytes. Larger ones get a 413. Default 0: no maximum, since bodies
	// are not held in memory.
	MaxBody int64
	// MaxConns is the maximum number of client connections, over all listeners. When it is reached, the gateway makes
	// room for a new connection: it closes a connection without a request in flight, of the address with the most
	// connections. If all connections have requests in flight, it closes the new connection. Default DefaultMaxConns.
	MaxConns int
	// MaxConnsPerAddress is the maximum number of connections of one address, including upgraded connections. All IPv6
	// addresses of a /64 network count together. The limit does not apply to trusted proxies and to Unix sockets. If a
	// load balancer sends the PROXY protocol, the limit applies to the addresses of its clients. Default a quarter of
	// MaxConns, but at least 64; negative for no maximum.
	MaxConnsPerAddress int
	// Descriptors is the share of the process's file descriptors that client connections may use. Default any number.
	Descriptors conns.Share
	// MaxStreams is the maximum number of concurrent requests on an HTTP/2 connection. Default DefaultMaxStreams.
	MaxStreams int
	// MaxUpgrades is the maximum number of upgraded connections. Further ones get a 503. Default DefaultMaxUpgrades.
	MaxUpgrades int

	// Upgrades are the protocols that a client may upgrade to. A request to upgrade to another protocol is forwarded
	// without its Upgrade header. New refuses protocols that carry HTTP requests, such as h2c, because those requests
	// would bypass all limits. Default websocket.
	Upgrades []string
	// KeepUnderscores forwards headers with an underscore in their name. Many services do not distinguish X_User from
	// X-User, so a client could use such a name for a header that only proxies may send. Default false: headers with an
	// underscore are removed.
	KeepUnderscores bool
	// OnlyFromProxies are headers that are removed unless a trusted proxy sends them. Add the headers in which your
	// proxies name the user. X-Forwarded-* and Forwarded are always included. Default DefaultOnlyFromProxies.
	OnlyFromProxies []string
	// SendForwarded adds the header Forwarded (RFC 7239) to every request. Default false: it is sent only if a trusted
	// proxy has sent it.
	SendForwarded bool
	// Via is the gateway's name in the header Via of requests and responses. Default none: Via is not set.
	Via string
	// RequestIDHeader is the name of the header with the request's id, in requests and responses. Default
	// DefaultRequestID.
	RequestIDHeader string

	// DrainDelay is the time for which Shutdown still accepts connections after Ready has become false, so that load
	// balancers stop sending requests first. Default 0.
	DrainDelay time.Duration
	// DrainLinger is the time for which Shutdown leaves idle connections open after DrainDelay, so that requests in
	// transit still get a response, with Connection: close. Default DefaultDrainLinger.
	DrainLinger time.Duration
	// UpgradeGrace is the time for which upgraded connections stay open after DrainLinger. Default DefaultUpgradeGrace.
	UpgradeGrace time.Duration
	// DrainTimeout is the maximum time for which Serve drains when its context ends. Default DefaultDrainTimeout.
	DrainTimeout time.Duration

	// NetHTTP serves all clients with net/http. Default false: package downstream, which is faster, serves HTTP/2 and
	// common HTTP/1.1 requests. The responses are the same, with two exceptions: net/http keeps a connection open after a
	// request with both Content-Length and Transfer-Encoding, and it waits for more bytes if a malformed request has
	// fewer than 14.
	NetHTTP bool

	// AccessLog selects the requests that are logged. Default none.
	AccessLog *AccessLog
	// Observe is called for every request when it has ended. It must be fast, and the Observation is valid only during the
	// call. Default nil.
	Observe func(*Observation)
	// Tracer traces requests. Default nil: none are traced.
	Tracer *traces.Tracer
	// Logger is for messages to operators. Default slog.Default().
	Logger *slog.Logger
}

// DefaultOnlyFromProxies returns the default of Config.OnlyFromProxies. Some services take the client's address or the
// URL from these headers, so a client could use them to fake either.
func DefaultOnlyFromProxies() []string {
	return []string{"X-Real-IP", "X-Original-URL", "X-Original-URI", "X-Rewrite-URL"}
}

// A ConfigError is one error in a Config. Validate returns one or several, joined by errors.Join.
type ConfigError struct {
	// Field is the path of the field, such as Routes[0].Upstreams[1].URL.
	Field string
	// Value is the value of the field.
	Value string
	// Want describes valid values.
	Want string
}

func (e *ConfigError) Error() string {
	if e.Value == "" {
		return "gateway: " + e.Field + ": want " + e.Want
	}
	return "gateway: " + e.Field + " " + e.Value + ": want " + e.Want
}

// Validate returns all errors in the Config. It reads the files that the Config names.
func (c Config) Validate() error {
	c.setDefaults()
	return c.validate()
}

// setDefaults sets zero fields to their defaults.
func (c *Config) setDefaults() {
	if len(c.Listeners) == 0 {
		c.Listeners = []Listener{{Address: DefaultAddress}}
	}
	setDefault(&c.HeaderTimeout, DefaultHeaderTimeout)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.BodyTimeout, DefaultBodyTimeout)
	setDefault(&c.MinBodyRate, DefaultMinBodyRate)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	setDefault(&c.StreamTimeout, DefaultStreamTimeout)
	setDefault(&c.MaxHeader, DefaultMaxHeader)
	setDefault(&c.MaxConns, DefaultMaxConns)
	setDefault(&c.MaxStreams, DefaultMaxStreams)
	setDefault(&c.MaxUpgrades, DefaultMaxUpgrades)
	setDefault(&c.RequestIDHeader, DefaultRequestID)
	setDefault(&c.DrainLinger, DefaultDrainLinger)
	setDefault(&c.UpgradeGrace, DefaultUpgradeGrace)
	setDefault(&c.DrainTimeout, DefaultDrainTimeout)
	if c.Upgrades == nil {
		c.Upgrades = []string{"websocket"}
	}
	if c.OnlyFromProxies == nil {
		c.OnlyFromProxies = DefaultOnlyFromProxies()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.AccessLog != nil {
		filled := c.AccessLog.withDefaults()
		setDefault(&filled.Logger, c.Logger)
		c.AccessLog = &filled
	}
	listeners := make([]Listener, len(c.Listeners))
	for i, l := range c.Listeners {
		if l.TLS != nil {
			filled := *l.TLS
			setDefault(&filled.CheckFilesEvery, DefaultCheckFilesEvery)
			l.TLS = &filled
		}
		listeners[i] = l
	}
	c.Listeners = listeners
	routes := make([]Route, len(c.Routes))
	for i, r := range c.Routes {
		r.setDefaults(c)
		routes[i] = r
	}
	c.Routes = routes
}

// setDefault sets a zero value to its default.
func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// configErrors collects the errors of a Config.
type configErrors struct{ errs []error }

func (c *configErrors) add(field, value, want string) {
	c.errs = append(c.errs, &ConfigError{Field: field, Value: value, Want: want})
}

func (c *configErrors) err() error { return errors.Join(c.errs...) }
