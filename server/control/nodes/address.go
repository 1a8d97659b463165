package nodes

import (
	"net"
	"net/netip"
	"net/url"

	"github.com/headgate/headgate/server/control"
)

// ResolveAddress completes the address of a node by the address that its heartbeat came from. A node that listens on
// all interfaces is reached where the heartbeat came from. A node that listens on loopback of another host cannot be
// reached, and loses its QueryKey.
func ResolveAddress(n *control.Node, from netip.Addr) {
	u, err := url.Parse(n.Address)
	if err != nil || n.Address == "" || !from.IsValid() {
		return
	}
	host, err := netip.ParseAddr(u.Hostname())
	isName := err != nil
	switch {
	case isName && u.Hostname() != "localhost":
	case !isName && host.IsUnspecified():
		u.Host = net.JoinHostPort(from.String(), u.Port())
		n.Address = u.String()
	case (isName || host.IsLoopback()) && !from.IsLoopback():
		n.QueryKey = ""
	}
}
