package resp

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/service"
)

// Config is what a Server is made of. Engine and Store must be given.
type Config struct {
	// Engine decides HG.TAKE and its like.
	Engine *engine.Engine
	// Store counts what CL.THROTTLE takes. It is the engine's store, or one of its kind: if it is an engine.Borrower, all
	// decisions are taken to be made in this process at once.
	Store headgate.Limiter
	// Bind makes a limit of Store ready, if it can: memstore's Bind. Default is to name the limit with every check.
	Bind func(headgate.Limit) (Bound, error)
	// OnFailure says what CL.THROTTLE answers when Store fails: Open lets pass, Closed does not. Local is for a guard around
	// Store; what it cannot decide passes. Default Open.
	OnFailure headgate.Policy
	// Token is what clients must show with AUTH or HELLO. Default none: everybody may ask.
	Token *service.Token
	// AdminToken is good for everything that Token is good for. Without any of them nobody may reset. Default none.
	AdminToken *service.Token
	// Logins counts wrong tokens. It must be given with a Token or AdminToken.
	Logins *service.Logins
	// TLS has the certificates. Default nil: no TLS.
	TLS *service.TLS
	// Identity gives what callers say of their clients the form that rules compare. Default identity.New's without settings.
	Identity *identity.Identifier
	// Limits bound what clients can hold.
	Limits Limits
	// Conns bounds the connections of one address and the file descriptors. Default a quarter of Limits.Conns for an
	// address, but at least 64, and any number of descriptors.
	Conns service.ConnLimits
	// Version is what INFO says of the program. Default "dev".
	Version string
	// Logger hears of faults, and of certificates. Default slog's.
	Logger *slog.Logger
}

// A Bound is a limit of a store, made ready. It reads the key only until it returns.
type Bound interface {
	Take(key string, n int64) (headgate.Decision, error)
}

// Limits bound what clients can hold. Zero fields have the defaults.
type Limits struct {
	// Conns is how many connections there may be; more are told so and closed. Default 10,000.
	Conns int
	// Inline is how long a command may be that is sent as a line, in bytes. Default 4 KiB.
	Inline int
	// Args is of how many arguments a command may consist. Default 256.
	Args int
	// Bulk is how long an argument may be, in bytes. Default 16 KiB.
	Bulk int
	// Command is how long a command may be in all, in bytes. Default 64 KiB.
	Command int
	// Held is how much all connections together may have sent of commands that are not whole or wait for EXEC, in bytes, not counting the
	// first 4 KiB of each. Default 64 MiB.
	Held int
	// InFlight is how many decisions may be in flight at once if they are made behind a network, of all connections. More
	// wait. Default 4096.
	InFlight int
	// DecideTimeout is how long decisions behind a network may take, the waiting for InFlight included. Default 1s.
	DecideTimeout time.Duration
	// CommandTimeout is how long a command may take to come, from its first byte on; the first one from the connection on.
	// Default 10s.
	CommandTimeout time.Duration
	// IdleTimeout is how long a connection may be silent between commands. Default 10m. Below zero it may forever.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may leave its answers unread once there is no room for more. Default 10s.
	WriteTimeout time.Duration
}

var (
	errNoEngine = errors.New("resp: no Engine")
	errNoStore  = errors.New("resp: no Store: want a Limiter for CL.THROTTLE")
)

func (c *Config) fill() error {
	if c.Engine == nil {
		return errNoEngine
	}
	if c.Store == nil {
		return errNoStore
	}
	if c.OnFailure > headgate.Local {
		return fmt.Errorf("resp: OnFailure %v: want open, closed or local", c.OnFailure)
	}
	if c.Identity == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return fmt.Errorf("resp: identity: %w", err)
		}
		c.Identity = id
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c.Limits.fill()
}

func (l *Limits) fill() error {
	for _, n := range []struct {
		name      string
		value     *int
		or, least int
	}{
		{"Conns", &l.Conns, 10_000, 1},
		{"Inline", &l.Inline, 4 << 10, 64},
		{"Args", &l.Args, 256, 8},
		{"Bulk", &l.Bulk, 16 << 10, 64},
		{"Command", &l.Command, 64 << 10, 1 << 10},
		{"Held", &l.Held, 64 << 20, 1},
		{"InFlight", &l.InFlight, 4096, 1},
	} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if *n.value < n.least || *n.value > maxLimit {
			return fmt.Errorf("resp: Limits.%s %d: want %d to %d, or 0 for %d", n.name, *n.value, n.least, maxLimit, n.or)
		}
	}
	for _, n := range []struct {
		name  string
		value *time.Duration
		or    time.Duration
	}{
		{"DecideTimeout", &l.DecideTimeout, time.Second},
		{"CommandTimeout", &l.CommandTimeout, 10 * time.Second},
		{"IdleTimeout", &l.IdleTimeout, 10 * time.Minute},
		{"WriteTimeout", &l.WriteTimeout, 10 * time.Second},
	} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if forever := n.value == &l.IdleTimeout; *n.value < 0 && !forever {
			return fmt.Errorf("resp: Limits.%s %v: want more than 0, or 0 for %v", n.name, *n.value, n.or)
		}
	}
	if l.Inline > l.Command || l.Bulk > l.Command {
		return fmt.Errorf("resp: Limits.Inline %d and Bulk %d: want at most Command, %d", l.Inline, l.Bulk, l.Command)
	}
	return nil
}

// maxLimit keeps the sums of limits within an int everywhere.
const maxLimit = 1 << 29
