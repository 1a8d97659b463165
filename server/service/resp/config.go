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
	// Store has the counters of CL.THROTTLE. It is the engine's store or another store of the same kind. If it is an
	// engine.Borrower, the server assumes that all decisions are made in this process without waiting. This includes the
	// decisions of Engine.
	Store headgate.Limiter
	// Bind prepares a limit for repeated use with Store, as memstore's Prepare does. Default nil: each check contains its
	// limit.
	Bind func(headgate.Limit) (Bound, error)
	// OnFailure decides CL.THROTTLE when Store fails: Open allows, Closed denies. Local works only if Store is a guard.
	// The guard then decides with local counters, and the server allows the requests that the guard cannot decide.
	// Default Open.
	OnFailure headgate.Policy
	// Token is the token that clients must send with AUTH or HELLO. Default nil: clients need no token.
	Token *service.Token
	// AdminToken is accepted wherever Token is. HG.RESET needs one of the two tokens. If both are nil, HG.RESET is
	// always refused. Default nil.
	AdminToken *service.Token
	// Logins counts wrong tokens. Required with a Token or AdminToken.
	Logins *service.Logins
	// TLS configures the certificates. Default nil: no TLS.
	TLS *service.TLS
	// Identity normalizes the client attributes that callers send. Default: an Identifier with the zero identity.Config.
	Identity *identity.Identifier
	// Limits contains the limits of the resources that clients can use.
	Limits Limits
	// Conns limits the connections of one address, and the file descriptors. By default an address may have a quarter of
	// Limits.Conns, but at least 64, and file descriptors are not limited.
	Conns service.ConnLimits
	// Version is the program's version, which INFO shows. Default "dev".
	Version string
	// Logger logs faults and certificate loads. Default slog.Default().
	Logger *slog.Logger
}

// A Bound is a limit that Config.Bind has prepared. Take takes n units from the counter of key. It must not keep key
// after it returns.
type Bound interface {
	Take(key string, n int64) (headgate.Decision, error)
}

// Limits contains the limits of the resources that clients can use. A field that is zero has its default.
type Limits struct {
	// Conns is the maximum number of connections. Further connections get an error and are closed. Default 10,000.
	Conns int
	// Inline is the maximum size, in bytes, of a command that is a line of text instead of an array. Default 4 KiB.
	Inline int
	// Args is the maximum number of arguments of a command. Default 256.
	Args int
	// Bulk is the maximum size of an argument, in bytes. Default 16 KiB.
	Bulk int
	// Command is the maximum size of a whole command, in bytes. Default 64 KiB.
	Command int
	// Held is the maximum size, in bytes, of all incomplete commands and all commands that wait for EXEC. It is for all
	// connections together. An incomplete command of up to 4 KiB does not count. Default 64 MiB.
	Held int
	// InFlight is the maximum number of concurrent decisions by a remote store, for all connections together. Further
	// decisions wait. Default 4096.
	InFlight int
	// DecideTimeout is the maximum time of a decision by a remote store. The time spent waiting because of InFlight
	// counts. Default 1s.
	DecideTimeout time.Duration
	// CommandTimeout is the maximum time to receive a command, from its first byte. For the first command the time begins
	// when the connection is accepted. Clients that need a token must send it within this time. Default 10s.
	CommandTimeout time.Duration
	// IdleTimeout is the maximum time between commands. A negative value means no maximum. Default 10m.
	IdleTimeout time.Duration
	// WriteTimeout is the maximum time to write replies. It expires if the client does not read and the buffers of the
	// connection are full. Default 10s.
	WriteTimeout time.Duration
}

var (
	errNoEngine = errors.New("resp: no Engine")
	errNoStore  = errors.New("resp: no Store: CL.THROTTLE needs a Limiter")
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
