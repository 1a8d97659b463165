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

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/streamgate"
)

const (
	metaSize = 17 // of NodeMeta: version, fleet and incarnation
	// streamTimeout is the time limit for joining a host or exchanging state with it.
	streamTimeout = 2 * time.Second
	leaveTimeout  = time.Second
	// bindTries is the number of free ports that are tried. A port that is free for TCP may be in use for UDP.
	bindTries = 10
	// nameTakenProbes is the number of probe intervals for which a conflict about this host's name is remembered. While
	// the conflict lasts, it is noticed again about every ten intervals.
	nameTakenProbes = 30
)

// A memberMesh is a Mesh that uses hashicorp/memberlist to find hosts and to send packets.
type memberMesh struct {
	options  *Options
	fleet    uint64
	self     fleet.Peer
	clock    clock.Stopwatch
	listener Listener
	events   *notifier
	list     *memberlist.Memberlist
	joiner   *joiner
	streams  *streamgate.Gate

	mu             sync.RWMutex
	nodes          map[string]*meshNode     // the other live and lost hosts
	roundTrips     map[string]time.Duration // recent round-trip times without queueing
	nameTakenUntil time.Duration            // until this time, another host seems to have this host's name; 0 for never
}

// A meshNode is another host. member reports whether memberlist considers it a member.
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

// openMemberMesh listens, and starts joining.
func openMemberMesh(g *Limiter) (Mesh, error) {
	o := &g.options
	m := &memberMesh{
		options: o, fleet: g.fleet, self: g.self, clock: g.clock, listener: receiver{g}, events: g.events,
		nodes: map[string]*meshNode{}, roundTrips: map[string]time.Duration{},
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
	conf.DeadNodeReclaimTime = 1         // 1 ns, so that a host can return with another address at once
	conf.EnableCompression = false       // packets are compact already
	conf.HandoffQueueDepth = 4096        // at most 5 MB of packets
	conf.UDPBufferSize = maxPacket + 100 // fits into an Ethernet frame
	conf.Delegate, conf.Events, conf.Conflict, conf.Merge, conf.Alive, conf.Ping = m, m, m, m, m, m
	conf.Logger = log.New(&logBridge{events: g.events}, "", 0)
	if err := m.bind(conf); err != nil {
		return nil, err
	}
	list, err := memberlist.Create(conf)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gossip: listening on %s: %w", o.BindAddr, err), conf.Transport.Shutdown())
	}
	m.list = list
	m.joiner = startJoiner(g, m)
	return m, nil
}

// bind opens the sockets and sets the advertised address.
func (m *memberMesh) bind(conf *memberlist.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	host, port, err := splitAddr(ctx, m.options.BindAddr)
	if err != nil {
		return fmt.Errorf("gossip: Options.BindAddr: %w", err)
	}
	if m.options.Advertise != "" {
		conf.AdvertiseAddr, conf.AdvertisePort, err = splitAddr(ctx, m.options.Advertise)
		if err != nil {
			return fmt.Errorf("gossip: Options.Advertise: %w", err)
		}
	} else if host == "::" {
		return fmt.Errorf("gossip: listening on %s: want an Advertise address that other hosts can reach", m.options.BindAddr)
	}
	sockets, err := listen(host, port, conf.Logger)
	if err != nil {
		return fmt.Errorf("gossip: listening on %s: %w", m.options.BindAddr, err)
	}
	conf.BindAddr, conf.BindPort = host, sockets.GetAutoBindPort()
	if conf.AdvertiseAddr != "" && conf.AdvertisePort == 0 {
		conf.AdvertisePort = conf.BindPort
	}
	var transport memberlist.NodeAwareTransport = sockets
	if m.options.Transport != nil {
		transport = m.options.Transport(sockets)
	}
	m.streams = streamgate.New(transport, m.isMember, func(addr string, err error) {
		m.events.notify(NetworkError, addr, err.Error())
	})
	conf.Transport = m.streams
	return nil
}

// isMember reports whether a live or lost host has that address.
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

// splitAddr returns the IP and the port of an address. If the address has no host, the IP is 0.0.0.0.
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

// Addr returns the address at which other hosts reach this host.
func (m *memberMesh) Addr() string { return m.list.LocalNode().Address() }

// Send implements Mesh.
func (m *memberMesh) Send(to string, packet []byte) error {
	m.mu.RLock()
	node := m.nodes[to]
	m.mu.RUnlock()
	if node == nil {
		return fmt.Errorf("gossip: no host %q", to)
	}
	return m.list.SendBestEffort(&node.Node, packet)
}

// Close implements Mesh.
func (m *memberMesh) Close() error {
	m.joiner.close()
	// memberlist identifies a leaving host only by its name, so a second host with a name would make the first one leave.
	if !m.nameTaken() {
		if err := m.list.Leave(leaveTimeout); err != nil {
			m.events.notify(NetworkError, m.self.Name, err.Error())
		}
	}
	return m.list.Shutdown()
}

// nameTaken reports whether another host has the name of this host.
func (m *memberMesh) nameTaken() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.nameTakenUntil != 0 && m.clock.Elapsed() < m.nameTakenUntil
}

// NodeMeta returns data that memberlist sends to other hosts: the version, the fleet's hash and this host's
// incarnation.
func (m *memberMesh) NodeMeta(int) []byte {
	b := append(make([]byte, 0, metaSize), packetVersion)
	b = binary.LittleEndian.AppendUint64(b, m.fleet)
	return binary.LittleEndian.AppendUint64(b, m.self.Incarnation)
}

// NotifyMsg is called with every packet.
func (m *memberMesh) NotifyMsg(packet []byte) { m.listener.Receive(packet) }

// GetBroadcasts returns nothing to add to memberlist's packets, because updates are sent in separate packets.
func (m *memberMesh) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns the state that memberlist sends to hosts that join, and regularly to a random host.
func (m *memberMesh) LocalState(bool) []byte { return m.listener.State() }

// MergeRemoteState is called with the state of another host.
func (m *memberMesh) MergeRemoteState(state []byte, _ bool) { m.listener.Merge(state) }

// NotifyJoin is called when a host has joined. memberlist holds its lock during all Notify methods up to NotifyMerge.
func (m *memberMesh) NotifyJoin(node *memberlist.Node) {
	if node.Name == m.self.Name {
		return
	}
	m.add(node)
	m.listener.Joined(node.Name)
}

// NotifyUpdate is called when a host has restarted before it was lost.
func (m *memberMesh) NotifyUpdate(node *memberlist.Node) {
	if node.Name != m.self.Name {
		m.add(node)
	}
}

func (m *memberMesh) add(node *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[node.Name] = &meshNode{Node: *node, member: true}
}

// NotifyLeave is called when memberlist considers a host dead, or when a host leaves. It only marks the host as no
// member: a silent host becomes lost later, and a host that leaves also sends a leave packet.
func (m *memberMesh) NotifyLeave(node *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.nodes[node.Name]; known != nil {
		m.nodes[node.Name] = &meshNode{Node: known.Node}
	}
}

// NotifyConflict is called when two hosts have the same name.
func (m *memberMesh) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == m.self.Name {
		m.mu.Lock()
		m.nameTakenUntil = m.clock.Elapsed() + nameTakenProbes*m.options.Probe
		m.mu.Unlock()
	}
	m.events.notify(NameTaken, existing.Name, existing.Address()+" and "+other.Address())
}

// NotifyAlive refuses hosts with another secret.
func (m *memberMesh) NotifyAlive(node *memberlist.Node) error { return m.checkMeta(node) }

// NotifyMerge refuses to join a cluster with the same name and another secret.
func (m *memberMesh) NotifyMerge(nodes []*memberlist.Node) error {
	for _, node := range nodes {
		if err := m.checkMeta(node); err != nil {
			return err
		}
	}
	return nil
}

func (m *memberMesh) checkMeta(node *memberlist.Node) error {
	if node.Name == m.self.Name {
		return nil
	}
	if len(node.Meta) != metaSize || node.Meta[0] != packetVersion {
		m.events.notify(BadPacket, node.Name, "the host has another version of gossip")
		return fmt.Errorf("host %s at %s has another version of gossip", node.Name, node.Address())
	}
	if binary.LittleEndian.Uint64(node.Meta[1:]) != m.fleet {
		m.events.notify(OtherSecret, node.Name, node.Address())
		return fmt.Errorf("host %s at %s belongs to another cluster: its key secret differs", node.Name, node.Address())
	}
	return nil
}

// AckPayload adds nothing to responses to probes.
func (m *memberMesh) AckPayload() []byte { return nil }

// NotifyPingComplete is called with the round-trip time of a probe. A longer time than the last raises the stored time
// by at most an eighth, because it may include queueing.
func (m *memberMesh) NotifyPingComplete(other *memberlist.Node, trip time.Duration, _ []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[other.Name] == nil {
		return // the host was forgotten during the probe
	}
	if before, ok := m.roundTrips[other.Name]; ok {
		trip = min(trip, before+before/8)
	}
	m.roundTrips[other.Name] = trip
}

// longestDelay returns the longest known delay of packets from another host.
func (m *memberMesh) longestDelay() (longest time.Duration) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, trip := range m.roundTrips {
		longest = max(longest, trip/2)
	}
	return longest
}

// forget drops the address of a host that is no longer known.
func (m *memberMesh) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
	delete(m.roundTrips, name)
}

// members returns the addresses of members, including this host, and the addresses of known hosts that are not members.
func (m *memberMesh) members() (members map[string]bool, dead []string) {
	members = map[string]bool{m.Addr(): true}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, node := range m.nodes {
		if node.member {
			members[node.Address()] = true
		} else {
			dead = append(dead, node.Address())
		}
	}
	return members, dead
}

// address returns the current or last address of a host, or "".
func (m *memberMesh) address(name string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if node := m.nodes[name]; node != nil {
		return node.Address()
	}
	return ""
}

// incarnation returns the incarnation of a host, if memberlist knows the host.
func (m *memberMesh) incarnation(name []byte) (incarnation uint64, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node := m.nodes[string(name)]
	if node == nil || len(node.Meta) != metaSize {
		return 0, false
	}
	return binary.LittleEndian.Uint64(node.Meta[metaSize-8:]), true
}
