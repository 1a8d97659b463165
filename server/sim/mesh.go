package sim

import (
	"slices"

	"github.com/headgate/headgate/server/fleet/gossip"
)

// packetBytes is the approximate size of the headers of a packet.
const packetBytes = 80

// A meshPort is a node's access to the network of the mode gossip.
type meshPort struct {
	world    *world
	node     *node
	listener gossip.Listener
	knows    map[*node]bool
	closed   bool
}

var _ gossip.Mesh = (*meshPort)(nil)

// Send implements gossip.Mesh.
func (m *meshPort) Send(to string, packet []byte) error {
	w := m.world
	if m.closed {
		return nil
	}
	delay, arrives := w.network.send(len(packet) + packetBytes)
	other := w.byName[to]
	if !arrives || other == nil || !w.network.connects(m.node.slot, other.slot) {
		return nil
	}
	p := slices.Clone(packet)
	w.loop.After(delay, func() {
		if other.port != nil && !other.port.closed && w.byName[to] == other {
			other.host.Run(func() { other.port.listener.Receive(p) })
		}
	})
	return nil
}

// Close implements gossip.Mesh.
func (m *meshPort) Close() error {
	m.closed = true
	return nil
}

// introduceAll introduces nodes to each other that have not met, because they started during a partition.
func (w *world) introduceAll() {
	for _, n := range w.nodes {
		if n != nil && n.port != nil {
			n.host.Run(func() { w.introduce(n) })
		}
	}
}

// introduce introduces a node and all reachable nodes that it does not know yet to each other, as memberlist
// would.
func (w *world) introduce(n *node) {
	for _, other := range w.nodes {
		if other == nil || other == n || n.port.knows[other] || !w.network.connects(n.slot, other.slot) {
			continue
		}
		n.port.knows[other], other.port.knows[n] = true, true
		other.port.listener.Joined(n.host.Name)
		n.port.listener.Joined(other.host.Name)
		n.port.listener.Merge(other.port.listener.State())
		other.port.listener.Merge(n.port.listener.State())
	}
}
