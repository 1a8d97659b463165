package api

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/webhook"
	"github.com/headgate/headgate/server/internal/logins"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Defaults of a Config.
const (
	DefaultMaxBody     = 10 << 20
	DefaultMaxWatchers = 10_000
	DefaultMaxCached   = 64 << 20
	DefaultHeartbeat   = 10 * time.Second
)

// Config configures a Server. DB and Logins are required.
type Config struct {
	// DB is the database. The server does not close it.
	DB control.DB
	// Logins counts failed logins by address. Create it with service.NewLogins. Other listeners of the process can share
	// it.
	Logins *logins.Throttle
	// Node is the node in this process. It decides /v1/explain, and responds to /v1/keys like other nodes. Default none.
	Node nodequery.Node
	// NodeID is the ID of Node in heartbeats. Default none.
	NodeID string
	// NodeCounters identifies the counter store of Node, as in its heartbeats. Default none, which means that Node counts
	// in its own memory.
	NodeCounters string
	// NodeNamespace is the namespace of the rules that Node has. Default "default".
	NodeNamespace string
	// Identifier normalizes attributes in calls in the same way as the node normalizes attributes of requests. Default an
	// Identifier with the zero identity.Config.
	Identifier *identity.Identifier
	// AdminToken is the secret of a token with all rights. It is not stored. Default none.
	AdminToken string
	// FirstToken enables the creation of a token with all rights if the database has none, and is called with its secret.
	// Default nil, which creates no token.
	FirstToken func(token string)
	// ReadOnly, if not empty, is the reason why rules and clients cannot be changed, as a clause without a full stop. Dry
	// runs are still possible.
	ReadOnly string
	// NoOverrides, if not empty, is the reason why overrides and suspensions cannot be created, in the same form.
	NoOverrides string
	// DemoTraffic returns the switch of the demo traffic of this process, or nil if it has none. Default none.
	DemoTraffic func() Toggle
	// Hook serves /v1/hooks/rules, which receives the webhooks of another rules service. Create it with
	// webhook.NewReceiver. Default none.
	Hook http.Handler
	// Responder serves /v1/hooks/keys, which receives the queries of other rules services about Node. Create it with
	// nodequery.NewResponder. Default none.
	Responder http.Handler
	// NodeTLS verifies the certificates of nodes that are queried over HTTPS. Default the system's settings.
	NodeTLS *tls.Config
	// Hooks configures the delivery of webhooks.
	Hooks webhook.Options
	// MaxBody is the maximum size of a call's body in bytes. Bodies that are read line by line can be larger. Default
	// DefaultMaxBody.
	MaxBody int64
	// MaxWatchers is the maximum number of concurrent watchers. Default DefaultMaxWatchers.
	MaxWatchers int
	// MaxCached is the maximum size of all cached snapshots in bytes. They are compressed. Default DefaultMaxCached.
	MaxCached int64
	// Heartbeat is the interval at which nodes should send heartbeats. Default DefaultHeartbeat.
	Heartbeat time.Duration
	// From returns the caller's address. Default the address of the connection.
	From func(*http.Request) netip.Addr
	// Namer hides values of clients in traffic statistics, in the same way as on nodes. Default a Namer that hides only
	// values that may be secret.
	Namer *traffic.Namer
	// TrafficErased is called with the attributes of each client whose statistics were erased, in the form that Namer
	// stores or hashed by Namer.Erased. Default none.
	TrafficErased func(kept map[string]string)
	// NodeHistory are the statistics of Node. If it is set, calls about traffic show them, instead of those of the nodes that
	// report to this server. Default none.
	NodeHistory *traffic.History
	// NodeTraffic responds to queries for the traffic statistics of Node. Default none.
	NodeTraffic nodequery.TrafficSource
	// Logger is for errors. Default slog.Default().
	Logger *slog.Logger
	// Now returns the current time. Default time.Now.
	Now func() time.Time
}

// A Toggle turns something on or off. It is safe for concurrent use.
type Toggle interface {
	On() bool
	Set(on bool)
}

var (
	errNoDB     = errors.New("api: no DB: want one of control/open")
	errNoLogins = errors.New("api: no Logins: want one of service.NewLogins")
)

// validate sets the defaults and returns an error if a setting is invalid.
func (c *Config) validate() error {
	if c.DB == nil {
		return errNoDB
	}
	if c.Logins == nil {
		return errNoLogins
	}
	if c.Identifier == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return err
		}
		c.Identifier = id
	}
	c.NodeNamespace = cmp.Or(c.NodeNamespace, control.DefaultNamespace)
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.MaxWatchers = cmp.Or(c.MaxWatchers, DefaultMaxWatchers)
	c.MaxCached = cmp.Or(c.MaxCached, DefaultMaxCached)
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	if c.MaxBody < 1<<10 || c.MaxWatchers < 1 || c.MaxCached < 0 || c.Heartbeat < 0 {
		return fmt.Errorf("api: MaxBody %d, MaxWatchers %d, MaxCached %d, Heartbeat %v: "+
			"want at least 1024, 1, and none below 0", c.MaxBody, c.MaxWatchers, c.MaxCached, c.Heartbeat)
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.From == nil {
		c.From = remoteAddr
	}
	if c.Namer == nil {
		c.Namer = traffic.NewNamer(traffic.Clear, nil)
	}
	if c.TrafficErased == nil {
		c.TrafficErased = func(map[string]string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// remoteAddr returns the address of a call's connection.
func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
