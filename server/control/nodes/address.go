package nodes

import (
	"net"
	"net/netip"
	"net/url"

	"github.com/headgate/headgate/server/control"
)

// ResolveAddress completes the address of a node with the address that its heartbeat came from. A node that listens on
// all interfaces can be reached there. A node that listens on the loopback interface of another host cannot be reached:
// ResolveAddress removes its QueryKey, so that it is not queried.
func ResolveAddress(n *control.Node, from netip.Addr) {
	u, err := url.Parse(n.Address)
	if err != nil || n.Address == "" || !from.IsValid() {
		return
	}
	host, err := netip.ParseAddr(u.Hostname())
	isName := err != nil
	switch {
	case isName && u.Hostname() != "localhost": // other names are resolved when the node is queried
	case !isName && host.IsUnspecified():
		u.Host = net.JoinHostPort(from.String(), u.Port())
		n.Address = u.String()
	case (isName || host.IsLoopback()) && !from.IsLoopback():
		n.QueryKey = ""
	}
}
