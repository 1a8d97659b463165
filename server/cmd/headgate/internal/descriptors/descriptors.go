// Package descriptors divides the file descriptors of the process among its listeners and its connections to upstreams.
package descriptors

import (
	"cmp"
	"log/slog"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/service"
)

// otherFiles is the number of descriptors reserved for files, the database, Redis, gossip and webhooks.
const otherFiles = 128

// A Plan has the numbers of file descriptors that the parts of the process may use.
type Plan struct {
	Share       conns.Share // the numbers for each listener
	limit       int         // the maximum number for the process
	needed      int         // the number that the configured connections can use
	perUpstream int         // the maximum number of connections to one upstream; 0 for the configured number
}

// A need counts the descriptors that the configured connections can use.
type need struct {
	listeners   map[string]int // connections by listener
	upstreams   int            // number of upstream servers
	connections int            // connections to all upstreams
	upgraded    int            // connections of upgrades, to clients and to upstreams
}

func (n *need) total() int {
	sum := otherFiles + n.connections + n.upgraded
	for _, connections := range n.listeners {
		sum += connections
	}
	return sum
}

// divide plans the use of limit descriptors. If they are enough for n, it limits nothing. Otherwise a quarter is for
// connections to upstreams. Half of the rest is reserved for the listeners in equal parts, and any listener may use the
// other half.
func divide(limit int, n *need) *Plan {
	p := &Plan{limit: limit, needed: n.total()}
	if limit == 0 || p.needed <= limit {
		return p
	}
	available := max(limit-min(otherFiles, limit/4), 2*len(n.listeners))
	if n.upstreams > 0 {
		connections := min(n.connections, available/4)
		available -= connections
		p.perUpstream = max(1, connections/n.upstreams)
	}
	p.Share.Reserved = max(1, available/2/max(1, len(n.listeners)))
	p.Share.Shared = conns.NewBudget(available - p.Share.Reserved*len(n.listeners))
	return p
}

// isShort reports whether the process has fewer descriptors than it needs.
func (p *Plan) isShort() bool { return p.Share.Shared != nil }

// New plans the use of limit descriptors, 0 if their number is unknown, and logs if they are too few.
func New(c *config.Config, limit int, log *slog.Logger) (*Plan, error) {
	n, err := count(c)
	if err != nil {
		return nil, err
	}
	p := divide(limit, n)
	p.logShortage(log, c.File() != "")
	return p, nil
}

// Needed returns the maximum number of descriptors that a node with this configuration needs.
func Needed(c *config.Config) (int, error) {
	n, err := count(c)
	if err != nil {
		return 0, err
	}
	return n.total(), nil
}

func count(c *config.Config) (*need, error) {
	n := &need{listeners: map[string]int{}}
	if !c.GatewayOff() {
		settings, err := c.GatewayConfig("http://127.0.0.1:1") // any URL: only the connections are counted
		if err != nil {
			return nil, err
		}
		n.addGateway(&settings)
	}
	for name, addr := range map[string]string{
		"api": c.APIAddr, "grpc": c.GRPCAddr, "resp": c.RESPAddr,
		"admin": c.AdminAddr,
	} {
		switch {
		case addr == config.Off:
		case name == "admin":
			n.listeners[name] = c.AdminMaxConns()
		default:
			n.listeners[name] = cmp.Or(c.Service.MaxConns, service.DefaultMaxConns)
		}
	}
	return n, nil
}

// addGateway adds the connections of a gateway.
func (n *need) addGateway(settings *gateway.Config) {
	n.listeners["gateway"] = cmp.Or(settings.MaxConns, gateway.DefaultMaxConns)
	n.upgraded = 2 * cmp.Or(settings.MaxUpgrades, gateway.DefaultMaxUpgrades)
	for i := range settings.Routes {
		rt := &settings.Routes[i]
		n.upstreams += len(rt.Upstreams)
		n.connections += len(rt.Upstreams) * cmp.Or(rt.UpstreamConns, gateway.DefaultUpstreamConns)
	}
}

// logShortage logs if the process has fewer descriptors than it needs. The level is a warning if there is a
// configuration file or if the limit is very low. Otherwise the process is probably a trial, and the level is info.
func (p *Plan) logShortage(log *slog.Logger, configured bool) {
	if !p.isShort() {
		return
	}
	const few = 4096
	logAt := log.Info
	if configured || p.limit < few {
		logAt = log.Warn
	}
	logAt("fewer file descriptors than the configured connections need, allowing fewer connections; "+
		"raise the limit with ulimit -n or LimitNOFILE",
		"descriptors", p.limit, "needed", p.needed, "reserved_per_listener", p.Share.Reserved,
		"shared", p.Share.Shared.Total(), "per_upstream", p.perUpstream)
}

// LimitGateway lowers the connection limits of a gateway to its share of the descriptors.
func (p *Plan) LimitGateway(settings *gateway.Config) {
	settings.Descriptors = p.Share
	if p.perUpstream == 0 {
		return
	}
	for i := range settings.Routes {
		rt := &settings.Routes[i]
		rt.UpstreamConns = min(cmp.Or(rt.UpstreamConns, gateway.DefaultUpstreamConns), p.perUpstream)
	}
}
