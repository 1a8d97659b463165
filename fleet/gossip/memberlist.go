package gossip

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/fleet"
)

const (
	metaSize = 17
	// streamTimeout is how long joining a host, or exchanging state with it, may take.
	streamTimeout = 2 * time.Second
	leaveTimeout  = time.Second
	// bindTries is how often a free port is asked for: one that is free for TCP may not be for UDP.
	bindTries = 10
	// contested is for how many probes a name is taken for another's after that was heard. While there is another, it is
	// heard again about every ten.
	contested = 30
)

// A memberMesh carries packets by hashicorp/memberlist, which also finds out who is there.
type memberMesh struct {
	options *Options
	fleet   uint64
	self    fleet.Peer
	clock   fleet.Clock
	to      Listener
	events  *notifier
	list    *memberlist.Memberlist
	joiner  *joiner
	streams *streamGate

	mu    sync.RWMutex
	nodes map[string]*meshNode     // the others that live, and those that are missed
	trips map[string]time.Duration // how long it takes to a host and back, of late, where nothing is in the way
	taken time.Duration            // until when this host's name is taken for another's, or 0
}

// A meshNode is a host, and whether memberlist thinks that it is there.
type meshNode struct {
	memberlist.Node
	member bool
}

var (
	_ Mesh                        = (*memberMesh)(nil)
	_ memberlist.Delegate         = (*memberMesh)(nil)
	_ memberlist.EventDelegate    = (*memberMesh)(nil)
	_ memberlist.ConflictDelegate = (*memberMesh)(nil)
	_ memberlist.MergeDelegate    = (*memberMesh)(nil)
	_ memberlist.AliveDelegate    = (*memberMesh)(nil)
	_ memberlist.PingDelegate     = (*memberMesh)(nil)
)

// openMemberMesh listens, and begins to join.
func openMemberMesh(g *Limiter) (Mesh, error) {
	o := &g.options
	m := &memberMesh{
		options: o, fleet: g.fleet, self: g.self, clock: g.clock, to: receiver{g}, events: g.events,
		nodes: map[string]*meshNode{}, trips: map[string]time.Duration{},
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name = o.Name
	conf.Label = o.Cluster
	conf.SecretKey = o.Key
	conf.ProbeInterval = o.Probe
	conf.ProbeTimeout = o.Probe / 2
	conf.PushPullInterval = 10 * o.Probe
	conf.TCPTimeout = streamTimeout
	conf.GossipInterval = min(conf.GossipInterval, o.Probe)
	conf.DeadNodeReclaimTime = 1         // a host that comes back may have another address
	conf.EnableCompression = false       // packets are as small as they get
	conf.HandoffQueueDepth = 4096        // 5 MB of packets
	conf.UDPBufferSize = maxPacket + 100 // as much as an Ethernet frame holds
	conf.Delegate, conf.Events, conf.Conflict, conf.Merge, conf.Alive, conf.Ping = m, m, m, m, m, m
	conf.Logger = log.New(&logBridge{events: g.events}, "", 0)
	if err := m.bind(conf); err != nil {
		return nil, err
	}
	list, err := memberlist.Create(conf)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fleet: gossip on %s: %w", o.BindAddr, err), conf.Transport.Shutdown())
	}
	m.list = list
	m.joiner = startJoiner(g, m)
	return m, nil
}

// bind opens the sockets and says which address others are told.
func (m *memberMesh) bind(conf *memberlist.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	host, port, err := splitAddr(ctx, m.options.BindAddr)
	if err != nil {
		return fmt.Errorf("fleet: gossip BindAddr: %w", err)
	}
	if m.options.Advertise != "" {
		conf.AdvertiseAddr, conf.AdvertisePort, err = splitAddr(ctx, m.options.Advertise)
		if err != nil {
			return fmt.Errorf("fleet: gossip Advertise: %w", err)
		}
	} else if host == "::" {
		return fmt.Errorf("fleet: gossip on %s: want an Advertise address that others can reach", m.options.BindAddr)
	}
	net, err := listen(host, port, conf.Logger)
	if err != nil {
		return fmt.Errorf("fleet: gossip on %s: %w", m.options.BindAddr, err)
	}
	conf.BindAddr, conf.BindPort = host, net.GetAutoBindPort()
	if conf.AdvertiseAddr != "" && conf.AdvertisePort == 0 {
		conf.AdvertisePort = conf.BindPort
	}
	var transport memberlist.NodeAwareTransport = net
	if m.options.Transport != nil {
		transport = m.options.Transport(net)
	}
	m.streams = newStreamGate(transport, m.isMember, func(addr string, err error) { m.events.notify(Trouble, addr, err.Error()) })
	conf.Transport = m.streams
	return nil
}

// isMember reports whether a host of the fleet that lives or is missed has that address.
func (m *memberMesh) isMember(ip netip.Addr) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, node := range m.nodes {
		if addr, ok := netip.AddrFromSlice(node.Addr); ok && addr.Unmap() == ip {
			return true
		}
	}
	return false
}

// listen opens a TCP and a UDP socket on the same port.
func listen(host string, port int, logger *log.Logger) (t *memberlist.NetTransport, err error) {
	for range bindTries {
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{host}, BindPort: port, Logger: logger,
		})
		if err == nil || port != 0 {
			break
		}
	}
	return t, err
}

// splitAddr returns the IP and the port of an address. No host is all of this one's.
func splitAddr(ctx context.Context, addr string) (host string, port int, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%s: port %q: want 0 to 65535", addr, service)
	}
	if host == "" {
		return "0.0.0.0", port, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", 0, err
	}
	return ips[0].Unmap().String(), port, nil
}

// Addr returns where others reach this host.
func (m *memberMesh) Addr() string { return m.list.LocalNode().Address() }

// Send implements Mesh.
func (m *memberMesh) Send(to string, packet []byte) error {
	m.mu.RLock()
	node := m.nodes[to]
	m.mu.RUnlock()
	if node == nil {
		return fmt.Errorf("fleet: no host %q", to)
	}
	return m.list.SendBestEffort(&node.Node, packet)
}

// Close implements Mesh.
func (m *memberMesh) Close() error {
	m.joiner.close()
	// Memberlist tells only by name who leaves: a second host of a name would make the others take the first for gone.
	if !m.disputed() {
		if err := m.list.Leave(leaveTimeout); err != nil {
			m.events.notify(Trouble, m.self.Name, err.Error()) // it is missed then, unless somebody has heard its farewell
		}
	}
	return m.list.Shutdown()
}

// disputed reports whether another host has this one's name.
func (m *memberMesh) disputed() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.taken != 0 && m.clock.Now() < m.taken
}

// NodeMeta tells the others which incarnation this is and how it hashes keys.
func (m *memberMesh) NodeMeta(int) []byte {
	b := append(make([]byte, 0, metaSize), packetVersion)
	b = binary.LittleEndian.AppendUint64(b, m.fleet)
	return binary.LittleEndian.AppendUint64(b, m.self.Incarnation)
}

// NotifyMsg is called with every packet.
func (m *memberMesh) NotifyMsg(packet []byte) { m.to.Receive(packet) }

// GetBroadcasts has nothing to add to memberlist's own packets: what we tell has packets of its own.
func (m *memberMesh) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is what a host is given that joins, and now and then another.
func (m *memberMesh) LocalState(bool) []byte { return m.to.State() }

// MergeRemoteState is called with what such a host has given.
func (m *memberMesh) MergeRemoteState(state []byte, _ bool) { m.to.Merge(state) }

// NotifyJoin is called with memberlist's lock held, as are the next four.
func (m *memberMesh) NotifyJoin(node *memberlist.Node) {
	if node.Name == m.self.Name {
		return
	}
	m.keep(node)
	m.to.Joined(node.Name)
}

// NotifyUpdate is called when a host has restarted so quickly that nobody has missed it.
func (m *memberMesh) NotifyUpdate(node *memberlist.Node) {
	if node.Name != m.self.Name {
		m.keep(node)
	}
}

func (m *memberMesh) keep(node *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[node.Name] = &meshNode{Node: *node, member: true}
}

// NotifyLeave is called for a host that leaves, which says so itself, and for one that memberlist takes for dead: it is lost when
// nothing more is heard of it.
func (m *memberMesh) NotifyLeave(node *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept := m.nodes[node.Name]; kept != nil {
		m.nodes[node.Name] = &meshNode{Node: kept.Node}
	}
}

// NotifyConflict is called for a second host of a name.
func (m *memberMesh) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == m.self.Name {
		m.mu.Lock()
		m.taken = m.clock.Now() + contested*m.options.Probe
		m.mu.Unlock()
	}
	m.events.notify(NameTaken, existing.Name, existing.Address()+" and "+other.Address())
}

// NotifyAlive keeps out who hashes keys with another secret.
func (m *memberMesh) NotifyAlive(node *memberlist.Node) error { return m.check(node) }

// NotifyMerge keeps two clusters apart that have the same name and different secrets.
func (m *memberMesh) NotifyMerge(nodes []*memberlist.Node) error {
	for _, node := range nodes {
		if err := m.check(node); err != nil {
			return err
		}
	}
	return nil
}

func (m *memberMesh) check(node *memberlist.Node) error {
	if node.Name == m.self.Name {
		return nil
	}
	if len(node.Meta) != metaSize || node.Meta[0] != packetVersion {
		m.events.notify(BadPacket, node.Name, "its host speaks another version of gossip")
		return fmt.Errorf("host %s at %s speaks another version of gossip", node.Name, node.Address())
	}
	if binary.LittleEndian.Uint64(node.Meta[1:]) != m.fleet {
		m.events.notify(OtherSecret, node.Name, node.Address())
		return fmt.Errorf("host %s at %s is of another cluster: its key secret differs", node.Name, node.Address())
	}
	return nil
}

// AckPayload adds nothing to the answers to probes.
func (m *memberMesh) AckPayload() []byte { return nil }

// NotifyPingComplete is called when a host has answered a probe, with how long that took. It takes a while until a way that has
// become longer counts.
func (m *memberMesh) NotifyPingComplete(other *memberlist.Node, trip time.Duration, _ []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[other.Name] == nil {
		return // it was forgotten meanwhile
	}
	if before, ok := m.trips[other.Name]; ok {
		trip = min(trip, before+before/8)
	}
	m.trips[other.Name] = trip
}

// way returns how long a packet takes from the host that is farthest away, as far as is known.
func (m *memberMesh) way() (longest time.Duration) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, trip := range m.trips {
		longest = max(longest, trip/2)
	}
	return longest
}

// forget drops the address of a host that is not missed any more.
func (m *memberMesh) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
	delete(m.trips, name)
}

// members returns the addresses of the hosts that memberlist thinks are there, this one included, and of those that it does not.
func (m *memberMesh) members() (there map[string]bool, dead []string) {
	there = map[string]bool{m.Addr(): true}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, node := range m.nodes {
		if node.member {
			there[node.Address()] = true
		} else {
			dead = append(dead, node.Address())
		}
	}
	return there, dead
}

// address returns where a host is or was, or nothing.
func (m *memberMesh) address(name string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if node := m.nodes[name]; node != nil {
		return node.Address()
	}
	return ""
}

// incarnation returns which one of a name it is that memberlist holds for the host, if any.
func (m *memberMesh) incarnation(name []byte) (incarnation uint64, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node := m.nodes[string(name)]
	if node == nil || len(node.Meta) != metaSize {
		return 0, false
	}
	return binary.LittleEndian.Uint64(node.Meta[metaSize-8:]), true
}
