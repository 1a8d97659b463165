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
	// Logins counts failed logins by address. Make it with service.NewLogins; other listeners of the process can share it.
	Logins *logins.Throttle
	// Node is the node in this process, which serves explain and, together with the other nodes, keys. Default none.
	Node nodequery.Node
	// NodeID is the ID of Node in heartbeats. Default none.
	NodeID string
	// NodeCounters identifies the counter store of Node, as in its heartbeats. Default none: Node counts in its memory.
	NodeCounters string
	// NodeNamespace is the namespace of the rules that Node has. Default "default".
	NodeNamespace string
	// Identifier normalizes the attributes in calls like the attributes of requests. Default an Identifier with the zero
	// identity.Config.
	Identifier *identity.Identifier
	// AdminToken is a token that may do everything. It is not stored. Default none.
	AdminToken string
	// FirstToken is called with the secret of a new token that may do everything, if the database has none. Default nil:
	// none is created.
	FirstToken func(token string)
	// ReadOnly, if not empty, is the reason why rules and clients cannot be changed: the end of a sentence, without its
	// full stop. Dry runs are still possible.
	ReadOnly string
	// NoOverrides, if not empty, is the reason why overrides are not possible, in the same form.
	NoOverrides string
	// DemoTraffic returns the switch of the demo traffic of this process, or nil if it has none. Default none.
	DemoTraffic func() Switch
	// Hook serves /v1/hooks/rules, the webhooks of another rules service. Make it with webhook.NewReceiver. Default none.
	Hook http.Handler
	// Responder serves /v1/hooks/keys, the queries of other rules services about Node. Make it with nodequery.NewResponder.
	// Default none.
	Responder http.Handler
	// NodeTLS verifies nodes that are queried by HTTPS. Default the system's settings.
	NodeTLS *tls.Config
	// Hooks configures the delivery of webhooks.
	Hooks webhook.Options
	// MaxBody is the maximum size of a call's body in bytes. Bodies that are read line by line can be larger. Default
	// DefaultMaxBody.
	MaxBody int64
	// MaxWatchers is the maximum number of concurrent watchers. Default DefaultMaxWatchers.
	MaxWatchers int
	// MaxCached is the maximum size of cached snapshots in bytes, compressed. Default DefaultMaxCached.
	MaxCached int64
	// Heartbeat is the interval in which nodes should send heartbeats. Default DefaultHeartbeat.
	Heartbeat time.Duration
	// From returns the address that a call came from. Default the address of the connection.
	From func(*http.Request) netip.Addr
	// Namer hides the names of clients in the statistics of traffic, as the nodes do. Default one that hides only
	// values that may be secret.
	Namer *traffic.Namer
	// TrafficErased is called with the attributes of each client whose statistics were erased, in the form that Namer
	// stores. Default none.
	TrafficErased func(kept map[string]string)
	// NodeTraffic answers the queries of traffic.NodeQuery about Node. Default none.
	NodeTraffic nodequery.TrafficSource
	// Logger is for errors. Default slog.Default().
	Logger *slog.Logger
	// Now returns the current time. Default time.Now.
	Now func() time.Time
}

// A Switch turns something on or off. It is safe for concurrent use.
type Switch interface {
	On() bool
	Switch(on bool)
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
