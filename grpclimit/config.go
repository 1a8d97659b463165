package grpclimit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
)

// Config configures a Limiter. Only Engine is required.
type Config struct {
	// Engine decides calls.
	Engine *engine.Engine
	// Identifier identifies clients. Default is that of the zero identity.Config, which trusts no proxy: the client is the
	// connected peer.
	Identifier *identity.Identifier
	// Fields selects the metadata that reports limits to clients. Default both dialects.
	Fields httplimit.Fields
	// PerMessage makes each message that a client sends in a stream a request of its own. Opening the stream pays for
	// the first; each further one takes from the same limits, except concurrency limits, whose slots the stream holds.
	// By default a stream is one request, however long.
	PerMessage bool
	// OnError is called for faults: a decision that could not be made, a cost that could not be settled. It must be
	// safe for concurrent use. Default is to log with slog at Warn, at most once a second.
	OnError func(ctx context.Context, err error)
	// Now is the clock of X-RateLimit-Reset. Default the system's.
	Now func() time.Time
}

var errNoEngine = errors.New("grpclimit: no Engine: want one of engine.New")

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
func logError() func(context.Context, error) {
	var last atomic.Int64
	start := time.Now()
	return func(ctx context.Context, err error) {
		now := int64(time.Since(start)) + int64(time.Second)
		before := last.Load()
		if now-before < int64(time.Second) || !last.CompareAndSwap(before, now) {
			return
		}
		slog.WarnContext(ctx, "headgate: rate limiter failed; logged at most once a second", "err", err)
	}
}
