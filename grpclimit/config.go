package grpclimit

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/bykey"
)

// Config configures a Limiter. Only Engine is required.
type Config struct {
	// Engine decides calls.
	Engine *engine.Engine
	// Identifier identifies clients. The default trusts no proxy: the client is the connected peer.
	Identifier *identity.Identifier
	// Fields selects the metadata that reports limits to clients. Default is both RateLimit and X-RateLimit.
	Fields httplimit.Fields
	// PerMessage counts each message that a client sends in a stream as a request. The first message is counted when the
	// stream opens. Concurrency limits count the stream once: it holds one slot until it ends. By default a stream is one
	// request, whatever its length.
	PerMessage bool
	// OnError is called if a decision cannot be made or a cost cannot be settled. It must be safe for concurrent use.
	// Default is to log with slog at Warn, at most once a second.
	OnError func(ctx context.Context, err error)
	// Now returns the current time for X-RateLimit-Reset. Default time.Now.
	Now func() time.Time
}

var errNoEngine = errors.New("grpclimit: Engine is nil: create one with engine.New")

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
		c.OnError = bykey.LogErrors()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
