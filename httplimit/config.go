package httplimit

import (
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/bykey"
	"github.com/headgate/headgate/rules"
)

// Config configures the middleware. Only Engine is required.
type Config struct {
	// Engine decides requests.
	Engine *engine.Engine
	// Identifier identifies clients. The default trusts no proxy: the client's address is that of the connection.
	Identifier *identity.Identifier
	// Attributes returns attributes that the program knows, such as the user and the plan that an authentication
	// middleware has put into the request's context. They replace attributes of the Identifier with the same names. Use
	// {Kind: AttrDescriptor, Name: "plan"} for a plan, and test it in rules as descriptor.plan: clients cannot send
	// descriptors, but they can send headers. Names of headers are converted to lower case. Attributes must be safe for
	// concurrent use. Default none.
	Attributes func(r *http.Request) rules.Attributes
	// Fields selects the header fields that report limits to clients. Default is both RateLimit and X-RateLimit.
	Fields Fields
	// OnError is called if a request cannot be decided or its cost cannot be settled. It must be safe for concurrent use.
	// The default logs with slog at level Warn, at most once a second.
	OnError func(r *http.Request, err error)
	// Now returns the time for X-RateLimit-Reset. Default time.Now.
	Now func() time.Time
}

var errNoEngine = errors.New("httplimit: Engine is nil: create one with engine.New")

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
	log := bykey.LogErrors()
	return func(r *http.Request, err error) { log(r.Context(), err) }
}
