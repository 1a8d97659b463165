package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/conns"
)

// What a Config holds unless told otherwise.
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

// Config says where the gateway listens, where it sends what, and what it bears with. Listeners default to one on
// DefaultAddress; a Config needs at least one route.
type Config struct {
	// Listeners are where clients connect. Default one without TLS on DefaultAddress.
	Listeners []Listener
	// Routes say which upstreams a request goes to. At least one.
	Routes []Route
	// Limit is put around all that goes to upstreams; it sees requests in the form in which they are sent on. The
	// ResponseWriters that it hands on must have the method Unwrap if they are its own. Default none: everything passes.
	Limit func(http.Handler) http.Handler
	// Identity tells trusted proxies from others, and how paths are read. It should be the one that Limit uses. Default
	// that of the zero identity.Config, which trusts nobody.
	Identity *identity.Identifier

	// HeaderTimeout is how long a client may take for the header of a request, and for the handshake of TLS. Default
	// DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Default DefaultIdleTimeout.
	IdleTimeout time.Duration
	// BodyTimeout is how long a client may be silent while he sends a body. Default DefaultBodyTimeout.
	BodyTimeout time.Duration
	// MinBodyRate is how many bytes a second a client must send of a body on the whole, after BodyTimeout. Streams, which
	// are calls of gRPC and bodies whose answer has begun, are free of it. Default DefaultMinBodyRate; below zero none.
	MinBodyRate int
	// WriteTimeout is how long a client may take none of the answer that is there for him. Default DefaultWriteTimeout.
	WriteTimeout time.Duration
	// StreamTimeout is how long streams and upgraded connections may be silent. Default DefaultStreamTimeout.
	StreamTimeout time.Duration

	// MaxUpgradeAge is how long an upgraded connection may last on the whole. A place in flight that a limit gives it ends
	// after a time of its own, so who counts them sets both to the same. Default 0: as long as it likes.
	MaxUpgradeAge time.Duration

	// MaxHeader is how long the header of a request may be, in bytes, the request line included. A longer one is answered
	// with 431. Default DefaultMaxHeader.
	MaxHeader int
	// MaxBody is how long the body of a request may be, in bytes. A longer one is answered with 413. Default 0: as long as
	// it likes, since bodies are never held in memory.
	MaxBody int64
	// MaxConns is how many connections of clients there may be at once, over all listeners. For more, connections that serve
	// no request are closed, those of the address with the most first; without any, the new ones are. Default
	// DefaultMaxConns.
	MaxConns int
	// MaxConnsPerAddress is how many of them one address may have, together with upgraded ones; an IPv6 address counts as
	// its network of 64 bits. Trusted proxies, and peers on a Unix socket, may have any number; behind a load balancer that
	// sends the PROXY protocol, its clients are counted. Default a quarter of MaxConns, but at least 64; below zero any
	// number.
	MaxConnsPerAddress int
	// Descriptors are the file descriptors that client connections may use. It is for the program of which the gateway is a
	// part. Default any number.
	Descriptors conns.Share
	// MaxStreams is how many requests one connection of HTTP/2 may have in flight. Default DefaultMaxStreams.
	MaxStreams int
	// MaxUpgrades is how many upgraded connections there may be at once. More are answered with 503. Default
	// DefaultMaxUpgrades.
	MaxUpgrades int

	// Upgrades are the protocols that a client may switch to. What asks for another goes on as an ordinary request. A
	// protocol that carries requests of HTTP, such as h2c, is refused here: its requests would pass all limits by. Default
	// websocket.
	Upgrades []string
	// KeepUnderscores lets headers pass whose names hold an underscore. Many services take X_User for X-User, so a client
	// could send them what only a proxy may. Default is to remove them.
	KeepUnderscores bool
	// OnlyFromProxies are headers that are removed unless a trusted proxy sends them, besides X-Forwarded-* and Forwarded.
	// The header in which a proxy names the user belongs here. Default DefaultOnlyFromProxies.
	OnlyFromProxies []string
	// SendForwarded adds the header Forwarded (RFC 7239) to every request. Default is to do so only where a trusted proxy
	// has sent one.
	SendForwarded bool
	// Via is the name that is added to the header Via of requests and answers. Default none, and no Via.
	Via string
	// RequestIDHeader is the header that has the id of a request, both ways. Default DefaultRequestID.
	RequestIDHeader string

	// DrainDelay is how long Shutdown still accepts connections after Ready has become false, so that load balancers see
	// it. Default 0.
	DrainDelay time.Duration
	// DrainLinger is how long Shutdown then leaves idle connections open, so that a request which is on its way is still
	// answered, with Connection: close. Default DefaultDrainLinger.
	DrainLinger time.Duration
	// UpgradeGrace is how long upgraded connections stay open after that. Default DefaultUpgradeGrace.
	UpgradeGrace time.Duration
	// DrainTimeout is how long Serve drains at most when its context ends. Default DefaultDrainTimeout.
	DrainTimeout time.Duration

	// NetHTTP has net/http's server serve all clients, in place of the faster one of package downstream, which leaves to
	// net/http what is not plain HTTP/1.1. Answers are the same, but a connection is kept on which a request has said in two
	// ways how long it is, and one that ends within 14 bytes is waited for. Default false.
	NetHTTP bool

	// AccessLog says which requests are logged. Default none.
	AccessLog *AccessLog
	// Observe is told of every request when it is over. It must be fast, and the Observation is valid during the call
	// only. Default nobody.
	Observe func(*Observation)
	// Logger hears of what an operator should know. Default slog.Default().
	Logger *slog.Logger
}

// DefaultOnlyFromProxies returns the headers that only proxies may send unless Config.OnlyFromProxies says otherwise: by them a
// client could make a service believe that it is somebody else, or asks for something else.
func DefaultOnlyFromProxies() []string {
	return []string{"X-Real-IP", "X-Original-URL", "X-Original-URI", "X-Rewrite-URL"}
}

// A ConfigError is one thing that is wrong with a Config. Validate returns one or several, joined.
type ConfigError struct {
	// Field is where, such as Routes[0].Upstreams[1].URL.
	Field string
	// Value is what is there.
	Value string
	// Want says what would be right.
	Want string
}

func (e *ConfigError) Error() string {
	if e.Value == "" {
		return "gateway: " + e.Field + ": want " + e.Want
	}
	return "gateway: " + e.Field + " " + e.Value + ": want " + e.Want
}

// Validate reports all that is wrong with the Config, and what would be right. It looks into files too.
func (c Config) Validate() error {
	c.fill()
	return c.check()
}

// fill sets what is zero to its default.
func (c *Config) fill() {
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
		filled := c.AccessLog.filled()
		setDefault(&filled.Logger, c.Logger)
		c.AccessLog = &filled
	}
	listeners := make([]Listener, len(c.Listeners))
	for i, l := range c.Listeners {
		if l.TLS != nil {
			filled := *l.TLS
			setDefault(&filled.CheckFiles, DefaultCheckFiles)
			l.TLS = &filled
		}
		listeners[i] = l
	}
	c.Listeners = listeners
	routes := make([]Route, len(c.Routes))
	for i, r := range c.Routes {
		r.fill(c)
		routes[i] = r
	}
	c.Routes = routes
}

// setDefault sets a value that is zero to its default.
func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// A checker collects the errors of a Config.
type checker struct{ errs []error }

func (c *checker) add(field, value, want string) {
	c.errs = append(c.errs, &ConfigError{Field: field, Value: value, Want: want})
}

func (c *checker) err() error { return errors.Join(c.errs...) }
