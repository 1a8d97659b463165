package nodes

import (
	"net"
	"net/netip"
	"net/url"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// Validate returns the invalid fields of a heartbeat.
func Validate(n *control.Node) []source.Problem {
	var list []source.Problem
	for _, text := range []struct{ path, value string }{
		{"version", n.Version},
		{"address", n.Address},
		{"region", n.Region},
		{"error", n.Error},
		{"store", n.Store},
		{"counters", n.Counters},
		{"ask_key", n.AskKey},
	} {
		if len(text.value) > rules.MaxText {
			list = append(list, source.Problem{Path: text.path, Want: "at most 4096 bytes"})
		}
	}
	for _, m := range n.Misfits() {
		list = append(list, source.Problem{Path: m.Path, Value: m.Value, Want: m.Want})
	}
	return list
}

// ResolveAddress completes the address of a node by the address that its heartbeat came from. A node that listens on
// all interfaces is reached where the heartbeat came from. A node that listens on loopback of another host cannot be
// reached, and loses its AskKey.
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
		n.AskKey = ""
	}
}
