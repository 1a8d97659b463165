package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/service"
)

// What a Config holds unless told otherwise.
const (
	DefaultMaxBody     = 1 << 20
	DefaultMaxBatch    = 1000
	DefaultMaxBuffered = 64 << 20
)

// Config is what a Server is made of. Only Engine must be given.
type Config struct {
	// Engine decides.
	Engine *engine.Engine
	// Identifier gives what callers say of their clients the form that rules know, and tells which proxies are believed.
	// Default one of the zero identity.Config, which believes none.
	Identifier *identity.Identifier
	// Token is what callers must show as Authorization: Bearer; those of forward-auth as X-Headgate-Token instead, if they
	// need the other for their client's. Default nil: everybody may call.
	Token *service.Token
	// Logins counts wrong tokens. It must be given with a Token.
	Logins *service.Logins
	// Fields says which header fields tell of limits. Default both dialects.
	Fields httplimit.Fields
	// MaxBody is how long the body of a call may be, in bytes. Default DefaultMaxBody.
	MaxBody int
	// MaxBatch is how many decisions there may be in a batch. Default DefaultMaxBatch.
	MaxBatch int
	// MaxBuffered is how many bytes of bodies longer than 4 KiB may be in memory at once; calls beyond it are answered with
	// 503. Default DefaultMaxBuffered.
	MaxBuffered int64
	// Parallel is how many decisions of one batch are asked for at once: 1 for a store in this process, some dozens for one
	// behind a network. With more than one, decisions of the same batch about the same client may come in any order.
	// Default 1.
	Parallel int
	// Also are handlers for paths beside those of this package. They ask for no token; RequireToken makes one that does.
	Also map[string]http.Handler
	// Logger hears of faults and of proxies that are not believed, at most once a second. Default slog's.
	Logger *slog.Logger
	// Now is the clock by which resetTimestamp and X-RateLimit-Reset are told. Default the system's.
	Now func() time.Time
}

var errNoEngine = errors.New("httpapi: no Engine: want one of engine.New")

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
	if c.MaxBuffered == 0 {
		c.MaxBuffered = DefaultMaxBuffered
	}
	for _, n := range []struct {
		name            string
		value           *int
		or, least, most int
	}{
		{"MaxBody", &c.MaxBody, DefaultMaxBody, 1 << 10, 64 << 20},
		{"MaxBatch", &c.MaxBatch, DefaultMaxBatch, 1, 100_000},
		{"Parallel", &c.Parallel, 1, 1, 1000},
	} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if *n.value < n.least || *n.value > n.most {
			return fmt.Errorf("httpapi: %s %d: want %d to %d, or 0 for the default", n.name, *n.value, n.least, n.most)
		}
	}
	if c.MaxBuffered < int64(c.MaxBody) {
		return fmt.Errorf("httpapi: MaxBuffered %d: want at least MaxBody, which is %d", c.MaxBuffered, c.MaxBody)
	}
	for path := range c.Also {
		if _, ours := routes[path]; ours || path == "" || path[0] != '/' {
			return fmt.Errorf("httpapi: Also %q: want a path such as /json that is not one of this package's", path)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
