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
	// Token is required from callers, as Authorization: Bearer. Proxies that call forward-auth may send it as
	// X-Headgate-Token, because Authorization may be a header of their client. Default nil: every caller is accepted.
	Token *service.Token
	// Logins counts wrong tokens. Required with a Token.
	Logins *service.Logins
	// Fields selects the response headers that describe limits. Default RateLimit and X-RateLimit headers.
	Fields httplimit.Fields
	// MaxBody is the maximum size of a call's body in bytes. Default DefaultMaxBody.
	MaxBody int
	// MaxBatch is the maximum number of decisions in a batch. Default DefaultMaxBatch.
	MaxBatch int
	// MaxBuffered is the maximum total size of bodies in memory, in bytes. Bodies of up to 4 KiB do not count. Further
	// calls get 503. Default 64 MiB.
	MaxBuffered int64
	// Parallel is the number of decisions of one batch that are made concurrently. Use 1 for a store in this process, and
	// some dozens for a remote store. Above 1, decisions of one batch about the same client may be made in any order.
	// Default 1.
	Parallel int
	// OtherHandlers has handlers for other paths. They must check tokens themselves.
	OtherHandlers map[string]http.Handler
	// Tracer traces calls. Default nil: none are traced.
	Tracer *traces.Tracer
	// Logger logs internal errors, at most one per second, and calls of untrusted proxies. Default slog.Default().
	Logger *slog.Logger
	// Now returns the time for resetTimestamp and X-RateLimit-Reset. Default time.Now.
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
	for path := range c.OtherHandlers {
		if _, served := routes[path]; served || path == "" || path[0] != '/' {
			return fmt.Errorf("httpapi: OtherHandlers %q: want a path such as /json that this package does not serve", path)
		}
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
