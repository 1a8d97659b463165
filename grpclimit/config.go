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

// Config is what a Limiter is made of. Only Engine must be given.
type Config struct {
	// Engine decides.
	Engine *engine.Engine
	// Identifier tells who is calling. Default one of the zero identity.Config, by which the client is who is connected:
	// behind a proxy, give one that knows it.
	Identifier *identity.Identifier
	// Fields says which metadata tells clients of their limits. Default both dialects.
	Fields httplimit.Fields
	// PerMessage makes each message that a client sends in a stream a request of its own. The first is paid for by the
	// opening of the stream; each further one takes from the same limits, except those of concurrency, of which the stream
	// has its place. Default is that a stream is one request, however long.
	PerMessage bool
	// OnError is told of faults: a decision that could not be made, a cost that could not be settled. It must be safe for
	// concurrent use. Default is to log with slog at Warn, at most once a second.
	OnError func(ctx context.Context, err error)
	// Now is the clock by which X-RateLimit-Reset is told. Default the system's.
	Now func() time.Time
}

var errNoEngine = errors.New("grpclimit: no Engine: want one of engine.New")

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
		slog.WarnContext(ctx, "headgate: "+err.Error(), "more", "at most one of these is logged a second")
	}
}
