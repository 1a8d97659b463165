package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// Defaults of Config.
const (
	DefaultMaxBody  = 1 << 20
	DefaultMaxBatch = 1000
)

// Config configures a Server. Only Engine is required.
type Config struct {
	// Engine decides requests.
	Engine *engine.Engine
	// Identifier normalizes the client attributes that callers send, and knows the trusted proxies. Default an Identifier
	// with the zero identity.Config, which trusts no proxies.
	Identifier *identity.Identifier
	// Token is required from callers as Authorization: Bearer. Callers of forward-auth may send it as X-Headgate-Token
	// instead, if Authorization belongs to their client. Default nil: every caller is accepted.
	Token *service.Token
	// Logins counts wrong tokens. Required with a Token.
	Logins *service.Logins
	// Fields selects the header fields that describe limits. Default both dialects.
	Fields httplimit.Fields
	// MaxBody bounds the body of a call, in bytes. Default DefaultMaxBody.
	MaxBody int
	// MaxBatch bounds the decisions of a batch. Default DefaultMaxBatch.
	MaxBatch int
	// MaxBuffered bounds the bytes of bodies longer than 4 KiB held in memory; further calls get 503. Default 64 MiB.
	MaxBuffered int64
	// Parallel is the number of decisions of one batch that are made concurrently: 1 for a store in this process, some
	// dozens for a remote one. Above 1, decisions of one batch about the same client may come in any order. Default 1.
	Parallel int
	// Also has handlers for further paths. They must check tokens themselves.
	Also map[string]http.Handler
	// Tracer traces calls. Default nil: none are traced.
	Tracer *traces.Tracer
	// Logger logs faults and untrusted proxies, at most one per second. Default slog.Default().
	Logger *slog.Logger
	// Now is the clock for resetTimestamp and X-RateLimit-Reset. Default time.Now.
	Now func() time.Time
}

var errNoEngine = errors.New("httpapi: no Engine: want one of engine.New")

// validate checks the Config and sets defaults.
func (c *Config) validate() error {
	if c.Engine == nil {
		return errNoEngine
	}
	if err := c.Fields.Validate(); err != nil {
		return err
	}
	c.MaxBuffered = cmp.Or(c.MaxBuffered, 64<<20)
	options := service.CheckOptions("httpapi: ")
	options.Identifier(&c.Identifier)
	options.Int("MaxBody", &c.MaxBody, DefaultMaxBody, 1<<10, 64<<20)
	options.Int("MaxBatch", &c.MaxBatch, DefaultMaxBatch, 1, 100_000)
	options.Int("Parallel", &c.Parallel, 1, 1, 1000)
	if err := options.Err(); err != nil {
		return err
	}
	if c.MaxBuffered < int64(c.MaxBody) {
		return fmt.Errorf("httpapi: MaxBuffered %d: want at least MaxBody, which is %d", c.MaxBuffered, c.MaxBody)
	}
	for path := range c.Also {
		if _, served := routes[path]; served || path == "" || path[0] != '/' {
			return fmt.Errorf("httpapi: Also %q: want a path such as /json that this package does not serve", path)
		}
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
