package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/headgate/headgate/server/internal/conns"
)

// addresses returns the addresses of the listeners. The key of each is the listener's name.
func (n *Node) addresses() (list []slog.Attr) {
	add := func(name, addr string) { list = append(list, slog.String(name, addr)) }
	if n.gateway != nil {
		for i, addr := range n.gateway.Addrs() {
			name := "gateway"
			if i > 0 {
				name = fmt.Sprintf("gateway%d", i+1)
			}
			add(name, conns.Join(addr))
		}
	}
	for _, p := range n.service.protocols {
		add(p.name, conns.Join(p.listener.Addr()))
	}
	if n.admin != nil {
		add("admin", n.admin.addr())
	}
	if addr := n.fleet.GossipAddr(); addr != "" {
		add("gossip", addr)
	}
	return list
}

// Listeners returns the addresses in use, by name.
func (n *Node) Listeners() map[string]string {
	byName := make(map[string]string)
	for _, a := range n.addresses() {
		byName[a.Key] = a.Value.String()
	}
	return byName
}

// announce logs the addresses, and prints the first token and the banner.
func (n *Node) announce() {
	n.log.LogAttrs(context.Background(), slog.LevelInfo, "listening", n.addresses()...)
	n.printFirstToken()
	if n.options.Banner != nil {
		_, _ = fmt.Fprint(n.options.Banner, n.banner())
	}
}

// printFirstToken prints the admin token of a new database, unless it was already printed.
func (n *Node) printFirstToken() {
	if token := n.rulesService.firstToken.Swap(nil); token != nil && n.options.Secrets != nil {
		_, _ = fmt.Fprintf(n.options.Secrets,
			"\nThe rules service is new. Its admin token, shown this once:\n\n  %s\n", *token)
	}
}

// banner returns the addresses and commands to try.
func (n *Node) banner() string {
	var b strings.Builder
	b.WriteString("\nHeadgate is running.\n\n")
	for _, row := range n.bannerRows() {
		fmt.Fprintf(&b, "  %-9s %s\n", row[0], row[1])
	}
	if url := n.gatewayURL(); url != "" && n.hasDemoRules() {
		fmt.Fprintf(&b, `
Try it. Ten requests pass at once, then two per second; more get 429 and a Retry-After header:

  curl -i %[1]s

  for i in $(seq 15); do curl -s -o /dev/null -w '%%{http_code} ' %[1]s; done; echo

Other clients are not affected, such as one with an API key:

  curl -i -H 'X-API-Key: alice' %[1]s
`, url)
	} else if url != "" {
		fmt.Fprintf(&b, "\n  curl -i %s\n", url)
	}
	b.WriteString("\nStop it with Ctrl-C.\n\n")
	return b.String()
}

// bannerRows returns the names and addresses that the banner lists.
func (n *Node) bannerRows() (rows [][2]string) {
	if n.gateway != nil {
		address := cmp.Or(n.gatewayURL(), conns.Join(n.gateway.Addrs()[0]))
		upstream := n.config.Upstream
		switch {
		case n.config.NeedsDemo():
			upstream = "a built-in service; protect yours with --upstream URL"
		case len(n.config.Gateway.Routes) > 0:
			upstream = "the upstreams of " + n.config.File()
		}
		rows = append(rows, [2]string{"gateway", address}, [2]string{"upstream", upstream})
	}
	rows = append(rows, [2]string{"rules", n.rulesText()})
	for _, p := range n.service.protocols {
		address := localAddress(conns.Join(p.listener.Addr()))
		switch p.name {
		case "api":
			if p.listener.Addr().Network() == "unix" {
				address += ", POST /v1/ratelimit"
			} else {
				address = "http://" + address + "/v1/ratelimit"
			}
			rows = append(rows, [2]string{"decisions", address})
		case "grpc":
			rows = append(rows, [2]string{"gRPC", address + ", Envoy's protocol too"})
		case "resp":
			rows = append(rows, [2]string{"Redis", address + ", with CL.THROTTLE and HG.TAKE"})
		}
	}
	if n.admin == nil {
		return rows
	}
	admin := n.admin.url()
	if n.admin.listener.Addr().Network() == "unix" {
		admin += ", "
	}
	rows = append(rows, [2]string{"console", admin + "/"})
	if n.rulesService.api.Load() != nil {
		rows = append(rows, [2]string{"rules API", admin + "/v1/rules"})
	}
	return append(rows, [2]string{"metrics", admin + "/metrics"}, [2]string{"health", admin + "/readyz"})
}

// rulesText describes where the rules come from, and how to change them if that is not obvious.
func (n *Node) rulesText() string {
	if n.followedRules == nil {
		return n.config.Rules
	}
	text := n.followedRules.status().Source
	switch {
	case n.hasDemoRules():
		text += "; change them with \"headgate rules apply\", in the console, or use --rules FILE"
	case n.engine.Rules().Len() == 0:
		text += "; there are none yet, so nothing is limited: " +
			"add some with \"headgate rules apply -f rules.yaml\" or in the console"
	}
	return text
}

// hasDemoRules reports whether the demo rules are in force.
func (n *Node) hasDemoRules() bool {
	return n.followedRules != nil && n.engine.Rules().Rule(demoRule) != nil
}

// gatewayURL returns the URL of the gateway on this host, or "" if it is off or listens on a Unix socket.
func (n *Node) gatewayURL() string {
	if n.gateway == nil {
		return ""
	}
	addr := n.gateway.Addrs()[0]
	if addr.Network() != "tcp" {
		return ""
	}
	scheme := "http://"
	if l := n.config.Gateway.Listeners; len(l) > 0 && l[0].TLS != nil {
		scheme = "https://"
	}
	return scheme + localAddress(addr.String()) + "/"
}

// localAddress returns the address at which this host can reach its own listener. For a listener on all addresses, that
// is localhost.
func localAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
