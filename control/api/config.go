package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/logins"
	"github.com/headgate/headgate/rules"
)

// What a Config holds unless told otherwise.
const (
	DefaultMaxBody     = 10 << 20
	DefaultMaxWatchers = 10_000
	DefaultMaxCached   = 64 << 20
	DefaultHeartbeat   = 10 * time.Second
)

// A Local is the node that the API is served by, whose rules it can be asked about. An *engine.Engine is one.
type Local interface {
	// Rules returns those in force.
	Rules() *rules.Set
	// ExplainTerms says what would become of a request, and takes nothing.
	ExplainTerms(ctx context.Context, s rules.Subject, t engine.Terms) (*engine.Explanation, error)
	// Reset forgets what a client has consumed under a rule.
	Reset(ctx context.Context, rule string, s rules.Subject) error
}

var _ Local = (*engine.Engine)(nil)

// Config is what a Server is made of. DB and Logins must be given.
type Config struct {
	// DB is where everything is kept. The server does not close it.
	DB control.DB
	// Logins counts failed logins by address: one of service.NewLogins, which other listeners of the process share.
	Logins *logins.Throttle
	// Node answers explain, and keys together with the nodes that send heartbeats. Default none.
	Node Local
	// NodeID is how heartbeats name the Node: it is asked here rather than by the network. Default none.
	NodeID string
	// NodeNamespace is whose rules the Node has in force: only who may see that namespace may ask it. Default "default".
	NodeNamespace string
	// Identifier gives attributes in calls the form that requests have. Default one of the zero identity.Config.
	Identifier *identity.Identifier
	// AdminToken is one that may do everything, as read from a file; it is kept nowhere. Default none.
	AdminToken string
	// FirstToken is told the token that was made because the database has none that may do everything. It is the only time
	// that it is seen. Default nil: none is made.
	FirstToken func(token string)
	// ReadOnly, if it is not empty, says why rules and clients cannot be changed here, such as that they are those of a file:
	// the end of a sentence, without its full stop. What only asks what a change would be is answered all the same.
	ReadOnly string
	// NoOverrides, if it is not empty, says why there can be no overrides here, in the same form.
	NoOverrides string
	// Hook, if any, takes the webhooks of another rules service at /v1/hooks/rules. Make it with NewReceiver.
	Hook http.Handler
	// Answerer, if any, lets other rules services of the same database ask the Node. Make it with NewAnswerer.
	Answerer http.Handler
	// NodeTLS is how to verify nodes that are asked by https. Default as the system does.
	NodeTLS *tls.Config
	// Hooks says how webhooks are delivered.
	Hooks HookConfig
	// MaxBody is how long the body of a call may be, in bytes. What is sent line by line may be longer. Default
	// DefaultMaxBody.
	MaxBody int64
	// MaxWatchers is how many may watch at once. Default DefaultMaxWatchers.
	MaxWatchers int
	// MaxCached is how many bytes of snapshots are kept for who asks next, compressed. Default DefaultMaxCached.
	MaxCached int64
	// Heartbeat is how often nodes are told to say how they are. Default DefaultHeartbeat.
	Heartbeat time.Duration
	// From returns the address that a call came from. Default that of the connection.
	From func(*http.Request) netip.Addr
	// Logger hears of faults. Default slog's.
	Logger *slog.Logger
	// Now is the clock. Default the system's.
	Now func() time.Time
}

// HookConfig says how webhooks are delivered. The zero HookConfig will do.
type HookConfig struct {
	// Networks are those to which webhooks may be sent although they are not public: private, loopback and link-local
	// addresses are refused otherwise, also those that a name leads to. Default none.
	Networks []netip.Prefix
	// Attempts is how often a delivery is tried before it is a dead letter. Default 10.
	Attempts int
	// Backoff is how long to wait after the first attempt that fails; each later wait is twice as long, up to MaxBackoff,
	// and up to a half longer by chance. Default 1 s and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// Timeout is how long an attempt may take. Default 10 s.
	Timeout time.Duration
	// Parallel is how many are sent at once. Default 8.
	Parallel int
	// Keep is for how long deliveries can be looked at, and dead letters be sent again. Default 7 days.
	Keep time.Duration
}

var (
	errNoDB     = errors.New("api: no DB: want one of control/open")
	errNoLogins = errors.New("api: no Logins: want one of service.NewLogins")
)

// fill checks the Config and sets what is missing.
func (c *Config) fill() error {
	if c.DB == nil {
		return errNoDB
	}
	if c.Logins == nil {
		return errNoLogins
	}
	if c.AdminToken != "" && len(c.AdminToken) < minAdminToken {
		return fmt.Errorf("api: AdminToken: %d characters are too few: want at least %d, better 32 by chance", len(c.AdminToken), minAdminToken)
	}
	if c.Identifier == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return err
		}
		c.Identifier = id
	}
	setDefault(&c.NodeNamespace, defaultNamespace)
	setDefault(&c.MaxBody, DefaultMaxBody)
	setDefault(&c.MaxWatchers, DefaultMaxWatchers)
	setDefault(&c.MaxCached, DefaultMaxCached)
	setDefault(&c.Heartbeat, DefaultHeartbeat)
	if c.MaxBody < 1<<10 || c.MaxWatchers < 1 || c.MaxCached < 0 || c.Heartbeat < 0 {
		return fmt.Errorf("api: MaxBody %d, MaxWatchers %d, MaxCached %d, Heartbeat %v: want at least 1024, 1, and none below 0",
			c.MaxBody, c.MaxWatchers, c.MaxCached, c.Heartbeat)
	}
	if c.From == nil {
		c.From = peer
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c.Hooks.fill()
}

func (c *HookConfig) fill() error {
	setDefault(&c.Attempts, 10)
	setDefault(&c.Backoff, time.Second)
	setDefault(&c.MaxBackoff, 5*time.Minute)
	setDefault(&c.Timeout, 10*time.Second)
	setDefault(&c.Parallel, 8)
	setDefault(&c.Keep, 7*24*time.Hour)
	if c.Attempts < 1 || c.Backoff < 0 || c.MaxBackoff < c.Backoff || c.Timeout < 0 || c.Parallel < 1 || c.Keep < 0 {
		return errors.New("api: Hooks: want at least one attempt, one at once, times that are not negative, and a MaxBackoff not below Backoff")
	}
	return nil
}

// setDefault sets what was not given.
func setDefault[T comparable](to *T, value T) {
	var none T
	if *to == none {
		*to = value
	}
}

// peer returns the address at the other end of the connection.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
