package gossip

import (
	"cmp"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// Defaults for Options that are zero.
const (
	DefaultCluster   = "headgate"
	DefaultAddr      = ":8085"
	DefaultBandwidth = 1_000_000
	DefaultInterval  = 50 * time.Millisecond
	DefaultMesh      = 16
	DefaultFanout    = 4
	DefaultProbe     = time.Second
	DefaultForget    = 24 * time.Hour
	defaultLag       = 10 * time.Second // default of LedgerOptions.Lag: updates of rarely changing keys are this late
)

// Options are the settings of a Limiter. Name is required.
type Options struct {
	// Name is the unique name of this host, of up to 64 bytes.
	Name string
	// Cluster is the name of the fleet, of up to 64 bytes. Hosts of other clusters are ignored. Default DefaultCluster.
	Cluster string
	// BindAddr is the host:port to listen on, with UDP and TCP. With port 0, the system chooses one. Default DefaultAddr.
	BindAddr string
	// Advertise is the host:port at which other hosts reach this host. Default BindAddr. If BindAddr means all addresses
	// of the machine, the default is its first private address.
	Advertise string
	// Join has hosts to join, as host:port. A name may resolve to several hosts. This host joins the fleet as soon as one
	// of them responds, and retries until then. The list may contain this host.
	Join []string
	// Key encrypts all traffic with AES: 16, 24 or 32 bytes, the same on all hosts. Without a key, anyone who can reach
	// the port can use up limits and read how much of them is used, but not by which client.
	Key []byte
	// Bandwidth is the maximum number of bytes per second that this host sends, including network headers. At least
	// 10,000. The hottest keys are sent first; updates above the limit wait. Default DefaultBandwidth.
	Bandwidth int64
	// Interval is the time between two rounds of updates, 10ms to 10s. Default DefaultInterval.
	Interval time.Duration
	// MeshSize is the maximum number of hosts in a fleet in which each host sends to all others. In a larger fleet, each
	// host sends to Fanout random hosts, which forward the packets. Defaults DefaultMesh and DefaultFanout.
	MeshSize, Fanout int
	// Probe is the time between two probes of other hosts, 50ms to 1m. A host is lost after it was silent for five times
	// Probe, or five times Interval if that is longer. In a fleet of more than MeshSize hosts, this takes up to 25 s.
	// Default DefaultProbe.
	Probe time.Duration
	// Forget is the time after which a lost host is removed from the known hosts, unless it has returned or left. Default
	// DefaultForget.
	Forget time.Duration
	// OnEvent is called with events, by one goroutine. If it is too slow, events are dropped and counted. It must not
	// close the Limiter. By default, events are logged with slog.
	OnEvent func(Event)
	// Random is the source of random numbers. Default a ChaCha8 with a random seed.
	Random rand.Source
	// Transport wraps the sockets, for tests of network faults. By default, they are not wrapped.
	Transport func(*memberlist.NetTransport) memberlist.NodeAwareTransport
	// Mesh creates the network, for simulators. Default a network of memberlist on BindAddr.
	Mesh func(Listener) (Mesh, error)
}

func (o *Options) validate() error {
	o.Cluster = cmp.Or(o.Cluster, DefaultCluster)
	o.BindAddr = cmp.Or(o.BindAddr, DefaultAddr)
	o.Bandwidth = cmp.Or(o.Bandwidth, DefaultBandwidth)
	o.MeshSize = cmp.Or(o.MeshSize, DefaultMesh)
	o.Fanout = cmp.Or(o.Fanout, DefaultFanout)
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.Probe = cmp.Or(o.Probe, DefaultProbe)
	o.Forget = cmp.Or(o.Forget, DefaultForget)
	if o.Random == nil {
		var seed [32]byte
		_, _ = crand.Read(seed[:]) // does not fail
		o.Random = rand.NewChaCha8(seed)
	}
	switch {
	case o.Name == "" || len(o.Name) > fleet.MaxNameBytes:
		return fmt.Errorf("gossip: Options.Name %q: want 1 to %d bytes", o.Name, fleet.MaxNameBytes)
	case len(o.Cluster) > fleet.MaxNameBytes:
		return fmt.Errorf("gossip: Options.Cluster %q: want at most %d bytes", o.Cluster, fleet.MaxNameBytes)
	case o.Bandwidth < 10_000 || o.Bandwidth > headgate.MaxCount/1000:
		return fmt.Errorf("gossip: Options.Bandwidth %d: want 10,000 bytes a second or more", o.Bandwidth)
	case o.Interval < 10*time.Millisecond || o.Interval > 10*time.Second:
		return fmt.Errorf("gossip: Options.Interval %v: want 10ms to 10s", o.Interval)
	case o.MeshSize < 1 || o.Fanout < 1 || o.Fanout > 32:
		return fmt.Errorf("gossip: Options.MeshSize %d, Fanout %d: want 1 or more, and a Fanout up to 32", o.MeshSize,
			o.Fanout)
	case o.Probe < 50*time.Millisecond || o.Probe > time.Minute:
		return fmt.Errorf("gossip: Options.Probe %v: want 50ms to 1m", o.Probe)
	case o.Forget < 0:
		return fmt.Errorf("gossip: Options.Forget %v: want more than 0", o.Forget)
	}
	for _, seed := range o.Join {
		if err := checkSeed(seed); err != nil {
			return err
		}
	}
	if o.Key != nil {
		if err := memberlist.ValidateKey(o.Key); err != nil {
			return fmt.Errorf("gossip: Options.Key of %d bytes: %w", len(o.Key), err)
		}
	}
	return nil
}

// secret returns the default secret of the ledger: the same on all hosts of a fleet.
func (o *Options) secret() []byte {
	mac := hmac.New(sha256.New, o.Key)
	mac.Write([]byte("headgate keys of " + o.Cluster))
	return mac.Sum(nil)
}

// A Mesh carries packets between the hosts of a fleet. The simulator implements its own Mesh.
type Mesh interface {
	// Send sends a packet to a host. The packet may be lost. Send does not block, and does not keep the packet.
	Send(to string, packet []byte) error
	// Close leaves the other hosts.
	Close() error
}

// A Listener receives packets and states from a Mesh.
type Listener interface {
	// Receive handles a packet, which may be malformed. It does not keep the packet.
	Receive(packet []byte)
	// Joined must be called when a host has joined.
	Joined(host string)
	// State returns the keys with the highest levels, encoded for a host that joins.
	State() []byte
	// Merge handles the State of another host.
	Merge(state []byte)
}

// A Limiter decides by its own counters, and sends its consumption to the other hosts. It needs no server, and no
// decision waits for another host. The consumption of all hosts counts: over-admission becomes a debt, which is repaid
// before any host admits more.
//
// # Over-admission
//
// At most min((N−1)·(R + r·S), (λ−r)·S) units of a key are admitted above its limit, for N hosts, a burst R, a rate r,
// an arrival rate λ, and a maximum age S of updates. S is the sum of one round, the network delay, and one more round
// for each lost packet. If a fifth of the packets is lost and the delay is 50 ms, one of a million updates of the
// hottest keys is older than 1 s. Keys that rarely change share the remaining bandwidth. With 10 hosts, 100,000 keys,
// 100,000 decisions per second and 1 MB/s per host, the 1,000 hottest keys are updated within 0.2 s, and the others
// within 20 s.
//
// # Updates
//
// Each host sends its total consumption of a key, not differences. So a lost packet only causes a delay, a repeated
// packet has no effect, and an old packet is recognized. Packets are sent by UDP. In a fleet of up to Options.MeshSize
// hosts, each host sends to all others. In a larger fleet, it sends to Fanout random hosts, which forward the packets.
// Forwarding takes Fanout times as many bytes, but does not require that every host can reach every other. Hosts also
// exchange the keys with the highest levels by TCP: when a host joins, and at intervals of ten times Options.Probe.
//
// # Membership
//
// Hosts find each other with hashicorp/memberlist. A host that leaves tells the others. A host that was silent for five
// times Options.Probe is lost. It stays known until it returns, another host has its address, or Options.Forget has
// passed. Meanwhile, rules with headgate.PartitionShare use only the live hosts' share of the limit. In every round,
// hosts also send a packet to lost hosts. So both sides of a partition notice its end, and send each other the missed
// updates. A host that restarts has a new incarnation, with totals of 0; the other hosts send it their totals.
//
// # Windows
//
// Every packet has the sender's time of day, and hosts send a packet at least about once a second. Windows use the
// median of the live hosts' clocks; for an even number of hosts, the earlier of the two middle clocks. Hosts that know
// the same live hosts have the same median, except for network delays. The median is right if most clocks are right. A
// host whose clock differs by more than fleet.MaxClockSkew is reported.
//
// # Conflicts
//
// If two hosts have the same name, the host that the others know is used until it leaves or is lost. The second host is
// ignored; it and the hosts that it contacts report NameTaken.
//
// A host accepts only hosts with the same cluster name, encryption key and secret, and reports others. Two clusters
// with the same name, key and secret become one fleet if they can reach each other.
type Limiter struct {
	options Options
	clock   clock.Stopwatch
	fleet   uint64 // hash of the cluster's name and secret, in each packet
	self    fleet.Peer
	ledger.Decider
	ledger   *ledger.Ledger
	members  *membership
	events   *notifier
	sender   *sender
	inbox    inbox
	clocks   clocks
	mesh     atomic.Pointer[Mesh] // nil until it is created
	closing  sync.Once
	closeErr error // the result of Close

	randomMu sync.Mutex
	random   *rand.Rand
}

var (
	_ headgate.Limiter = (*Limiter)(nil)
	_ fleet.Members    = (*Limiter)(nil)
)

// New returns a Limiter that listens and joins the fleet. It must be closed. New sets lo.Members. The default of
// lo.Secret is derived from the encryption key and the cluster's name, and the default of lo.Lag is 10 s.
func New(lo fleet.LedgerOptions, o Options) (*Limiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if lo.Clock == nil {
		lo.Clock = clock.System
	}
	if len(lo.Secret) == 0 {
		lo.Secret = o.secret()
	}
	g := &Limiter{options: o, fleet: fleetOf(o.Cluster, lo.Secret)}
	g.random = rand.New(o.Random)
	g.self = fleet.Peer{Name: o.Name, Incarnation: g.random.Uint64()}
	g.inbox.peers, g.inbox.limits = peerStates{}, limitTable{}
	g.members = newMembership(o.Forget)
	lo.Members = g
	if lo.Lag == 0 {
		lo.Lag = defaultLag
		if lo.Idle != 0 {
			lo.Lag = min(lo.Lag, lo.Idle)
		}
	}
	var err error
	if g.sender, err = newSender(g); err != nil {
		return nil, err
	}
	if g.ledger, err = ledger.New(lo, g.self, false); err != nil {
		return nil, err
	}
	g.clock = g.ledger.Clock()
	g.Decider = g.ledger
	g.events = newNotifier(g.clock, o.OnEvent)
	open := o.Mesh
	if open == nil {
		open = func(Listener) (Mesh, error) { return openMemberMesh(g) }
	}
	mesh, err := open(receiver{g})
	if err != nil {
		g.events.close()
		return nil, errors.Join(err, g.ledger.Close())
	}
	g.mesh.Store(&mesh)
	g.sender.start()
	return g, nil
}

// fleetOf returns a hash that identifies a fleet.
func fleetOf(cluster string, secret []byte) uint64 {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("headgate gossip " + cluster))
	return binary.LittleEndian.Uint64(mac.Sum(nil))
}

// Close sends the remaining updates, leaves the fleet and stops.
func (g *Limiter) Close() error {
	g.closing.Do(func() {
		g.sender.close()
		g.closeErr = g.currentMesh().Close()
		g.events.close()
		g.closeErr = errors.Join(g.closeErr, g.ledger.Close())
	})
	return g.closeErr
}

// currentMesh returns the mesh, or nil before it is created.
func (g *Limiter) currentMesh() Mesh {
	if m := g.mesh.Load(); m != nil {
		return *m
	}
	return nil
}

// randomInt returns a random number below n.
func (g *Limiter) randomInt(n int) int {
	g.randomMu.Lock()
	defer g.randomMu.Unlock()
	return g.random.IntN(n)
}

// shuffle puts a list into a random order.
func (g *Limiter) shuffle(list []string) {
	g.randomMu.Lock()
	defer g.randomMu.Unlock()
	g.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// Addr returns the address at which other hosts reach this host, or "" if the mesh has none.
func (g *Limiter) Addr() string {
	if m, ok := g.currentMesh().(*memberMesh); ok {
		return m.Addr()
	}
	return ""
}

// Live returns the number of live hosts, including this one.
func (g *Limiter) Live() int { return g.members.Live() }

// Known returns the number of live and lost hosts, including this one. Hosts that have left do not count.
func (g *Limiter) Known() int { return g.members.Known() }

// hostLeft removes a host that has left.
func (g *Limiter) hostLeft(host string) {
	if g.members.remove(host) {
		g.forget(host)
		g.events.notify(PeerLeft, host, "")
	}
}

// lostProbes is the number of probe intervals after which a silent host is lost.
const lostProbes = 5

// lostAfter returns the time after which a silent host is lost.
func (g *Limiter) lostAfter() time.Duration {
	interval := max(g.options.Probe, g.options.Interval)
	if others := len(g.members.live()); others >= g.options.MeshSize {
		interval = max(interval, maxSilenceInLargeFleet(others))
	}
	return lostProbes * interval
}

// checkHosts finds lost and forgotten hosts. d is the time that this host was running since the last call.
func (g *Limiter) checkHosts(d time.Duration) {
	lost, gone := g.members.advance(d, g.lostAfter())
	for _, host := range lost {
		g.events.notify(PeerLost, host, "")
	}
	for _, host := range gone {
		g.forget(host)
		g.events.notify(PeerForgotten, host, "")
	}
	if g.members.changed.Swap(false) {
		g.dropReplaced()
	}
}

// dropReplaced forgets lost hosts whose address a live host has now: they were restarted under another name.
func (g *Limiter) dropReplaced() {
	m, ok := g.currentMesh().(*memberMesh)
	if !ok || len(g.members.lost()) == 0 {
		return
	}
	names := map[string]string{m.Addr(): g.self.Name}
	for _, host := range g.members.live() {
		names[m.address(host)] = host
	}
	for _, host := range g.members.lost() {
		if name := names[m.address(host)]; name != "" && g.members.remove(host) {
			g.forget(host)
			g.events.notify(PeerForgotten, host, "its address belongs to "+name+" now")
		}
	}
}

// forget makes the mesh forget a host's address.
func (g *Limiter) forget(host string) {
	if m, ok := g.currentMesh().(*memberMesh); ok {
		m.forget(host)
	}
}
