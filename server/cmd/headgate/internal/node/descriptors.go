package node

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

// descriptors are the numbers of file descriptors that the parts of the process may use.
type descriptors struct {
	limit       int         // the maximum number for the process
	needed      int         // the number that the configured connections can use
	share       conns.Share // the numbers for each listener
	perUpstream int         // the maximum number of connections to one upstream; 0 for the configured number
}

// A descriptorNeed counts the descriptors that the configured connections can use.
type descriptorNeed struct {
	listeners   map[string]int // connections by listener
	upstreams   int            // number of upstream servers
	connections int            // connections to all upstreams
	upgraded    int            // connections of upgrades, to clients and to upstreams
}

func (n *descriptorNeed) total() int {
	sum := otherFiles + n.connections + n.upgraded
	for _, connections := range n.listeners {
		sum += connections
	}
	return sum
}

// planDescriptors divides limit descriptors. If they are enough for n, it limits nothing. Otherwise a quarter is for
// connections to upstreams. Half of the rest is reserved for the listeners in equal parts, and any listener may use the
// other half.
func planDescriptors(limit int, n *descriptorNeed) descriptors {
	d := descriptors{limit: limit, needed: n.total()}
	if limit == 0 || d.needed <= limit {
		return d
	}
	available := max(limit-min(otherFiles, limit/4), 2*len(n.listeners))
	if n.upstreams > 0 {
		connections := min(n.connections, available/4)
		available -= connections
		d.perUpstream = max(1, connections/n.upstreams)
	}
	d.share.Reserved = max(1, available/2/max(1, len(n.listeners)))
	d.share.Shared = conns.NewBudget(available - d.share.Reserved*len(n.listeners))
	return d
}

// isShort reports whether the process has fewer descriptors than it needs.
func (d *descriptors) isShort() bool { return d.share.Shared != nil }

// divideDescriptors sets n.descriptors for a process that may open limit descriptors, and logs if they are too few.
func (n *Node) divideDescriptors(limit int) error {
	need, err := countDescriptors(n.config)
	if err != nil {
		return err
	}
	n.descriptors = planDescriptors(limit, need)
	n.descriptors.logShortage(n.log, n.config.File() != "")
	return nil
}

// Descriptors returns the number of file descriptors that the process may open, 0 if it is unknown, and the maximum
// number that a node with this configuration needs.
func Descriptors(c *config.Config) (limit, needed int, err error) {
	need, err := countDescriptors(c)
	if err != nil {
		return 0, 0, err
	}
	return conns.DescriptorLimit(), need.total(), nil
}

func countDescriptors(c *config.Config) (*descriptorNeed, error) {
	need := &descriptorNeed{listeners: map[string]int{}}
	if !c.GatewayOff() {
		settings, err := c.GatewayConfig("http://127.0.0.1:1") // any URL: only the connections are counted
		if err != nil {
			return nil, err
		}
		need.addGateway(&settings)
	}
	for name, addr := range map[string]string{
		"api": c.APIAddr, "grpc": c.GRPCAddr, "resp": c.RESPAddr,
		"admin": c.AdminAddr,
	} {
		switch {
		case addr == config.Off:
		case name == "admin":
			need.listeners[name] = c.AdminMaxConns()
		default:
			need.listeners[name] = cmp.Or(c.Service.MaxConns, service.DefaultMaxConns)
		}
	}
	return need, nil
}

// addGateway adds the connections of a gateway.
func (n *descriptorNeed) addGateway(settings *gateway.Config) {
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
func (d *descriptors) logShortage(log *slog.Logger, configured bool) {
	if !d.isShort() {
		return
	}
	const few = 4096
	logAt := log.Info
	if configured || d.limit < few {
		logAt = log.Warn
	}
	logAt("fewer file descriptors than the configured connections need, allowing fewer connections; "+
		"raise the limit with ulimit -n or LimitNOFILE",
		"descriptors", d.limit, "needed", d.needed, "reserved_per_listener", d.share.Reserved,
		"shared", d.share.Shared.Total(), "per_upstream", d.perUpstream)
}

// limitGateway lowers the connection limits of a gateway to its share of the descriptors.
func (d *descriptors) limitGateway(settings *gateway.Config) {
	settings.Descriptors = d.share
	if d.perUpstream == 0 {
		return
	}
	for i := range settings.Routes {
		rt := &settings.Routes[i]
		rt.UpstreamConns = min(cmp.Or(rt.UpstreamConns, gateway.DefaultUpstreamConns), d.perUpstream)
	}
}
