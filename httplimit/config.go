package httplimit

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
)

// Config configures the middleware. Only Engine is required.
type Config struct {
	// Engine decides requests.
	Engine *engine.Engine
	// Identifier identifies clients. Default is one of the zero identity.Config, for which the client is the connected
	// peer: behind a proxy, configure one that knows it.
	Identifier *identity.Identifier
	// Fields selects the header fields that report limits to clients. Default both dialects.
	Fields Fields
	// OnError is called for faults: a decision that could not be made, a cost that could not be settled. It must be
	// safe for concurrent use. Default is to log with slog at Warn, at most once a second.
	OnError func(r *http.Request, err error)
	// Now is the clock of X-RateLimit-Reset. Default the system's.
	Now func() time.Time
}

var errNoEngine = errors.New("httplimit: no Engine: want one of engine.New")

// fill validates the Config and sets defaults.
func (c *Config) fill() error {
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
		c.Now = new(clock).now
	}
	return nil
}

// logError returns the default of Config.OnError.
func logError() func(*http.Request, error) {
	var last atomic.Int64
	start := time.Now()
	return func(r *http.Request, err error) {
		now := int64(time.Since(start)) + int64(time.Second)
		before := last.Load()
		if now-before < int64(time.Second) || !last.CompareAndSwap(before, now) {
			return
		}
		slog.WarnContext(r.Context(), "headgate: "+err.Error(), "more", "at most one of these is logged a second")
	}
}
