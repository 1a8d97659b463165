package resp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/service"
)

// Config configures a Server. Engine and Store are required.
type Config struct {
	// Engine decides HG.TAKE and HG.PEEK.
	Engine *engine.Engine
	// Store counts for CL.THROTTLE. It is the engine's store, or one of its kind: if it is an engine.Borrower, all
	// decisions are assumed to be made in this process without waiting.
	Store headgate.Limiter
	// Bind prepares a limit of Store, as memstore's Bind does. Default is to pass the limit with every check.
	Bind func(headgate.Limit) (Bound, error)
	// OnFailure decides CL.THROTTLE when Store fails: Open allows, Closed denies. Local is for a guard around Store;
	// requests that it cannot decide are allowed. Default Open.
	OnFailure headgate.Policy
	// Token is required from clients with AUTH or HELLO. Default none: every client is accepted.
	Token *service.Token
	// AdminToken is accepted wherever Token is. Without either token, resets are refused. Default none.
	AdminToken *service.Token
	// Logins counts wrong tokens. Required with a Token or AdminToken.
	Logins *service.Logins
	// TLS has the certificates. Default nil: no TLS.
	TLS *service.TLS
	// Identity normalizes the client attributes that callers send. Default one of the zero identity.Config.
	Identity *identity.Identifier
	// Limits bound the resources that clients can hold.
	Limits Limits
	// Conns bounds the connections of one address and the file descriptors. Default: a quarter of Limits.Conns per
	// address, but at least 64, and no bound on descriptors.
	Conns service.ConnLimits
	// Version is the program's version in INFO. Default "dev".
	Version string
	// Logger logs faults and certificate loads. Default slog.Default().
	Logger *slog.Logger
}

// A Bound is a prepared limit of a store. It does not keep the key after it returns.
type Bound interface {
	Take(key string, n int64) (headgate.Decision, error)
}

// Limits bound the resources that clients can hold. Zero fields have the defaults.
type Limits struct {
	// Conns bounds the connections; more get an error and are closed. Default 10,000.
	Conns int
	// Inline bounds a command that is sent as a line, in bytes. Default 4 KiB.
	Inline int
	// Args bounds the arguments of a command. Default 256.
	Args int
	// Bulk bounds an argument, in bytes. Default 16 KiB.
	Bulk int
	// Command bounds a whole command, in bytes. Default 64 KiB.
	Command int
	// Held bounds the bytes of incomplete commands and of commands that wait for EXEC, of all connections together, not
	// counting the first 4 KiB of each. Default 64 MiB.
	Held int
	// InFlight bounds the concurrent decisions of all connections with a remote store. More wait. Default 4096.
	InFlight int
	// DecideTimeout bounds a decision with a remote store, including the wait for InFlight. Default 1s.
	DecideTimeout time.Duration
	// CommandTimeout bounds the time to receive a command, from its first byte; for the first command from the
	// connection on. Default 10s.
	CommandTimeout time.Duration
	// IdleTimeout bounds the silence between commands. Default 10m. Negative for no bound.
	IdleTimeout time.Duration
	// WriteTimeout bounds how long a client may leave its replies unread once the buffers are full. Default 10s.
	WriteTimeout time.Duration
}

var (
	errNoEngine = errors.New("resp: no Engine")
	errNoStore  = errors.New("resp: no Store: want a Limiter for CL.THROTTLE")
)

func (c *Config) validate() error {
	if c.Engine == nil {
		return errNoEngine
	}
	if c.Store == nil {
		return errNoStore
	}
	if c.OnFailure > headgate.Local {
		return fmt.Errorf("resp: OnFailure %v: want open, closed or local", c.OnFailure)
	}
	c.Version = cmp.Or(c.Version, "dev")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	l, options := &c.Limits, service.CheckOptions("resp: Limits.")
	options.Identifier(&c.Identity)
	options.Int("Conns", &l.Conns, 10_000, 1, service.MaxInt)
	options.Int("Inline", &l.Inline, 4<<10, 64, service.MaxInt)
	options.Int("Args", &l.Args, 256, 8, service.MaxInt)
	options.Int("Bulk", &l.Bulk, 16<<10, 64, service.MaxInt)
	options.Int("Command", &l.Command, 64<<10, 1<<10, service.MaxInt)
	options.Int("Held", &l.Held, 64<<20, 1, service.MaxInt)
	options.Int("InFlight", &l.InFlight, 4096, 1, service.MaxInt)
	options.Duration("DecideTimeout", &l.DecideTimeout, time.Second, 1)
	options.Duration("CommandTimeout", &l.CommandTimeout, 10*time.Second, 1)
	options.Duration("IdleTimeout", &l.IdleTimeout, 10*time.Minute, math.MinInt64)
	options.Duration("WriteTimeout", &l.WriteTimeout, 10*time.Second, 1)
	if err := options.Err(); err != nil {
		return err
	}
	if l.Inline > l.Command || l.Bulk > l.Command {
		return fmt.Errorf("resp: Limits.Inline %d and Bulk %d: want at most Command, %d", l.Inline, l.Bulk, l.Command)
	}
	return nil
}
