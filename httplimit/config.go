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

// Config is what the middleware is made of. Only Engine must be given.
type Config struct {
	// Engine decides.
	Engine *engine.Engine
	// Identifier tells who is asking. Default one of the zero identity.Config, by which the client is who is connected: behind
	// a proxy, give one that knows it.
	Identifier *identity.Identifier
	// Fields says which header fields tell clients of their limits. Default both dialects.
	Fields Fields
	// OnError is told of faults: a decision that could not be made, a cost that could not be settled. It must be safe for
	// concurrent use. Default is to log with slog at Warn, at most once a second.
	OnError func(r *http.Request, err error)
	// Now is the clock by which X-RateLimit-Reset is told. Default the system's.
	Now func() time.Time
}

var errNoEngine = errors.New("httplimit: no Engine: want one of engine.New")

// fill checks the Config and sets what is missing.
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
