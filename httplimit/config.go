package httplimit

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// Config configures the middleware. Only Engine is required.
type Config struct {
	// Engine decides requests.
	Engine *engine.Engine
	// Identifier identifies clients. Default is that of the zero identity.Config, which trusts no proxy: the client is
	// the connected peer.
	Identifier *identity.Identifier
	// Attributes returns attributes that the program itself knows, such as the user and plan that an authentication
	// middleware has put into the request's context. They replace those of the Identifier with the same names. A plan is
	// descriptor.plan, {Kind: AttrDescriptor, Name: "plan"}, which clients cannot send as they can send a header. Names of
	// headers are put into lower case. It must be safe for concurrent use. Default none.
	Attributes func(r *http.Request) rules.Attributes
	// Fields selects the header fields that report limits to clients. Default both dialects.
	Fields Fields
	// OnError is called when a request could not be decided or its cost could not be settled. It must be safe for
	// concurrent use. The default logs with slog at level Warn, at most once a second.
	OnError func(r *http.Request, err error)
	// Now returns the time for X-RateLimit-Reset. Default time.Now.
	Now func() time.Time
}

var errNoEngine = errors.New("httplimit: no Engine: want the result of engine.New")

// validate checks the Config and sets defaults.
func (c *Config) validate() error {
	if c.Engine == nil {
		return errNoEngine
	}
	if err := c.Fields.Validate(); err != nil {
		return err
	}
	if c.Identifier == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return err
		}
		c.Identifier = id
	}
	if c.OnError == nil {
		c.OnError = logError()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// logError returns the default of Config.OnError.
func logError() func(*http.Request, error) {
	var last atomic.Int64 // when the last line was logged, in nanoseconds since 1970
	return func(r *http.Request, err error) {
		now, before := time.Now().UnixNano(), last.Load()
		if now-before >= int64(time.Second) && last.CompareAndSwap(before, now) {
			slog.WarnContext(r.Context(), "headgate: rate limiter failed; logged at most once a second", "err", err)
		}
	}
}
