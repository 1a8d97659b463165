package node

import (
	"log/slog"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/service"
)

// otherFiles is how many descriptors are kept for all else: files, the database, Redis, gossip, webhooks.
const otherFiles = 128

// descriptors says how the listeners share the process's file descriptors.
type descriptors struct {
	limit, needed int
	share         conns.Share // of each listener
	perUpstream   int         // the most connections to one upstream; 0 for as many as are configured
}

// A need is how many descriptors the connections of the configuration may use.
type need struct {
	listeners   map[string]int // their connections
	upstreams   int            // servers
	connections int            // to all of them
	upgraded    int            // connections to upstreams for these
}

func (n *need) total() int {
	sum := otherFiles + n.connections + n.upgraded
	for _, most := range n.listeners {
		sum += most
	}
	return sum
}

// planDescriptors divides so many descriptors. If they are enough for all, nothing is bounded. Else a quarter is for
// connections to upstreams, and of the rest, half is reserved for the listeners in equal parts and half is for whichever
// needs it.
func planDescriptors(limit int, n *need) descriptors {
	d := descriptors{limit: limit, needed: n.total()}
	if limit == 0 || d.needed <= limit {
		return d
	}
	left := max(limit-min(otherFiles, limit/4), 2*len(n.listeners))
	if n.upstreams > 0 {
		most := min(n.connections, left/4)
		left -= most
		d.perUpstream = max(1, most/n.upstreams)
	}
	d.share.Reserved = max(1, left/2/max(1, len(n.listeners)))
	d.share.Shared = conns.NewBudget(left - d.share.Reserved*len(n.listeners))
	return d
}

// short reports whether there are fewer descriptors than needed.
func (d *descriptors) short() bool { return d.share.Shared != nil }

// divideDescriptors looks how many descriptors there are, and says so in the log if they are too few.
func (n *Node) divideDescriptors() error {
	c := n.config
	needs := &need{listeners: map[string]int{}}
	if !c.GatewayOff() {
		settings, err := c.GatewayConfig("http://127.0.0.1:1") // any upstream: its connections are counted
		if err != nil {
			return err
		}
		needs.gateway(&settings)
	}
	for name, addr := range map[string]string{"api": c.APIAddr, "grpc": c.GRPCAddr, "resp": c.RESPAddr, "admin": c.AdminAddr} {
		switch {
		case addr == config.Off:
		case name == "admin":
			needs.listeners[name] = c.AdminMaxConns()
		default:
			needs.listeners[name] = or(c.Service.MaxConns, service.DefaultMaxConns)
		}
	}
	n.descriptors = planDescriptors(conns.DescriptorLimit(), needs)
	n.descriptors.report(n.log, c.Given("config"))
	return nil
}

// gateway adds what a gateway needs.
func (n *need) gateway(settings *gateway.Config) {
	n.listeners["gateway"] = or(settings.MaxConns, gateway.DefaultMaxConns)
	n.upgraded = 2 * or(settings.MaxUpgrades, gateway.DefaultMaxUpgrades)
	for i := range settings.Routes {
		rt := &settings.Routes[i]
		n.upstreams += len(rt.Upstreams)
		n.connections += len(rt.Upstreams) * or(rt.UpstreamConns, gateway.DefaultUpstreamConns)
	}
}

// report tells the log if there are fewer descriptors than needed. It is a warning if somebody has configured connections,
// or if not even a few thousand are possible.
func (d *descriptors) report(log *slog.Logger, configured bool) {
	if !d.short() {
		return
	}
	const few = 4096
	say := log.Info
	if configured || d.limit < few {
		say = log.Warn
	}
	say("fewer file descriptors than the configured connections need, allowing fewer connections; raise the limit with ulimit -n or LimitNOFILE",
		"descriptors", d.limit, "needed", d.needed, "reserved_per_listener", d.share.Reserved, "shared", d.share.Shared.Total(),
		"per_upstream", d.perUpstream)
}

// bound lowers what a gateway may use to what there is.
func (d *descriptors) bound(settings *gateway.Config) {
	settings.Descriptors = d.share
	if d.perUpstream == 0 {
		return
	}
	for i := range settings.Routes {
		rt := &settings.Routes[i]
		rt.UpstreamConns = min(or(rt.UpstreamConns, gateway.DefaultUpstreamConns), d.perUpstream)
	}
}

// or returns a value, or another if it is 0.
func or(value, other int) int {
	if value == 0 {
		return other
	}
	return value
}
