package nodes

import (
	"net"
	"net/netip"
	"net/url"

	"github.com/headgate/headgate/server/control"
)

// ResolveAddress corrects the address of a node by the address from which its heartbeat came. If the node listens on
// all interfaces, that address replaces the unspecified one. If the node listens on the loopback interface of another
// host, it cannot be reached, so ResolveAddress removes its QueryKey, and the node is not queried.
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
