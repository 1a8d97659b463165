package grpcapi

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// Defaults of Config.
const (
	DefaultMaxBatch    = 1000
	DefaultMaxStreams  = 250
	DefaultCallTimeout = time.Minute
)

// Config configures a Server. Only Engine is required.
type Config struct {
	// Engine decides requests.
	Engine *engine.Engine
	// Identifier normalizes the client attributes that callers send. Default an Identifier with the zero identity.Config.
	Identifier *identity.Identifier
	// Store is served as headgate.v1.Store. Default nil: this service is not available.
	Store headgate.Limiter
	// Token is required from callers. Default nil: every caller is accepted.
	Token *service.Token
	// AdminToken is accepted wherever Token is. Without either token, resets are refused. Default none.
	AdminToken *service.Token
	// Logins counts wrong tokens. Required with a Token or AdminToken.
	Logins *service.Logins
	// TLS has the certificates. Default nil: no TLS.
	TLS *TLS
	// MaxMessage is the maximum size of a message in bytes. Default 1 MiB.
	MaxMessage int
	// MaxBatch is the maximum number of requests, or of checks for the store, in one call. Default DefaultMaxBatch.
	MaxBatch int
	// MaxStreams is the maximum number of concurrent calls of a connection. The client delays further calls. Default
	// DefaultMaxStreams.
	MaxStreams int
	// MaxHeader is the maximum size of the metadata of a call in bytes. Default 16 KiB.
	MaxHeader int
	// MaxConns is the maximum number of open connections. Further connections are closed immediately. Default
	// service.DefaultMaxConns.
	MaxConns int
	// Conns limits the connections of one address and the file descriptors. Default: a quarter of MaxConns per address,
	// but at least 64, and no limit on descriptors.
	Conns service.ConnLimits
	// Parallel is the number of requests of one batch or stream that are decided concurrently. Use 1 for a store in this
	// process, and some dozens for a remote store. Above 1, requests of one batch or stream for the same client may be
	// decided in any order. Default 1.
	Parallel int
	// MinPing is the minimum interval between pings of a client. A client that pings more often is disconnected. Default
	// 10s.
	MinPing time.Duration
	// IdleTimeout is the time without a call after which the server closes a connection, with GOAWAY. Default 15m.
	IdleTimeout time.Duration
	// CallTimeout limits the time of a call that is not a stream, from its header to its response, if the client sets no
	// deadline. Default DefaultCallTimeout.
	CallTimeout time.Duration
	// Tracer traces calls and the messages of streams. Default nil: none are traced.
	Tracer *traces.Tracer
	// Logger logs internal errors, at most one per second, and certificate loads. Default slog.Default().
	Logger *slog.Logger
	// Now returns the time for reset_timestamp. Default time.Now.
	Now func() time.Time
}

// TLS configures the certificates of a server.
type TLS = service.TLS

var errNoEngine = errors.New("grpcapi: no Engine: want one of engine.New")

// validate checks the Config and sets defaults.
func (c *Config) validate() error {
	if c.Engine == nil {
		return errNoEngine
	}
	options := service.CheckOptions("grpcapi: ")
	options.Identifier(&c.Identifier)
	options.Int("MaxMessage", &c.MaxMessage, 1<<20, 1<<10, 64<<20)
	options.Int("MaxBatch", &c.MaxBatch, DefaultMaxBatch, 1, 100_000)
	options.Int("MaxStreams", &c.MaxStreams, DefaultMaxStreams, 1, 1<<20)
	options.Int("MaxHeader", &c.MaxHeader, 16<<10, 1<<10, 1<<20)
	options.Int("MaxConns", &c.MaxConns, service.DefaultMaxConns, 1, service.MaxInt)
	options.Int("Parallel", &c.Parallel, 1, 1, 1000)
	options.Duration("MinPing", &c.MinPing, 10*time.Second, time.Millisecond)
	options.Duration("IdleTimeout", &c.IdleTimeout, 15*time.Minute, time.Millisecond)
	options.Duration("CallTimeout", &c.CallTimeout, DefaultCallTimeout, time.Millisecond)
	if err := options.Err(); err != nil {
		return err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
