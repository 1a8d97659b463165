package sim

import "github.com/headgate/headgate/server/fleet/gossip"

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
	d := w.newDelivery()
	d.to, d.packet = other, append(d.packet[:0], packet...)
	w.loop.After(delay, d.arrive)
	return nil
}

// A delivery is a packet in transit. It is used again for another packet after it has arrived.
type delivery struct {
	to      *node
	packet  []byte
	arrive  func()
	receive func() // runs in a goroutine of the receiver
}

// newDelivery returns a delivery for another packet.
func (w *world) newDelivery() *delivery {
	if last := len(w.delivered) - 1; last >= 0 {
		d := w.delivered[last]
		w.delivered = w.delivered[:last]
		return d
	}
	d := &delivery{}
	d.receive = func() { d.to.port.listener.Receive(d.packet) }
	d.arrive = func() {
		if to := d.to; to.port != nil && !to.port.closed && w.byName[to.host.Name] == to {
			to.host.Run(d.receive)
		}
		w.delivered = append(w.delivered, d)
	}
	return d
}

// Close implements gossip.Mesh.
func (m *meshPort) Close() error {
	m.closed = true
	return nil
}

// introduceAll introduces nodes that do not know each other, because one of them started during a partition.
func (w *world) introduceAll() {
	for _, n := range w.nodes {
		if n != nil && n.port != nil {
			n.host.Run(func() { w.introduce(n) })
		}
	}
}

// introduce makes a node and all reachable nodes that it does not know yet exchange their names and states, as
// memberlist would.
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
