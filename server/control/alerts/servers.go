package alerts

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Server is a Redis server as the nodes of a fleet see it.
type Server struct {
	control.ServerStats
	// Nodes are the IDs of the nodes that use it.
	Nodes []string
}

// Servers returns the latest statistics of each Redis server that any node has reported, sorted by shard, the primary
// first.
func Servers(nodes []control.Node, now time.Time) []Server {
	index := map[string]int{} // in list
	var list []Server
	for i := range nodes {
		n := &nodes[i]
		if n.Health == nil || now.Sub(n.Seen) > maxServerAge {
			continue
		}
		for _, s := range n.Health.Servers {
			if now.Sub(s.Checked) > maxServerAge {
				continue
			}
			key := serverKey(n, s.Server)
			at, known := index[key]
			if !known {
				at = len(list)
				index[key] = at
				list = append(list, Server{ServerStats: s})
			}
			if s.Checked.After(list[at].Checked) {
				list[at].ServerStats = s
			}
			list[at].Nodes = append(list[at].Nodes, n.ID)
		}
	}
	slices.SortFunc(list, func(a, b Server) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Server, b.Server),
			slices.Compare(a.Nodes, b.Nodes))
	})
	return list
}

// serverKey identifies a server. Nodes on several hosts may each have one at the loopback address.
func serverKey(n *control.Node, address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		if u, err := url.Parse(n.Address); err == nil {
			return address + " on " + u.Hostname()
		}
	}
	return address
}
