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
	defaultLag       = 10 * time.Second // of updates of rarely changing keys
)

// Options are the settings of a Limiter. Name is required.
type Options struct {
	// Name is the unique name of this host, of up to 64 bytes.
	Name string
	// Cluster is the name of the fleet, of up to 64 bytes. Hosts of other clusters are ignored. Default DefaultCluster.
	Cluster string
	// BindAddr is the host:port to listen on, by UDP and TCP. Port 0 picks one. Default DefaultAddr.
	BindAddr string
	// Advertise is the host:port at which others reach this host. Default BindAddr or, if that is every address, the first
	// private address.
	Advertise string
	// Join are hosts to join, as host:port. A name may resolve to several hosts. One of the hosts is enough, and this host
	// may be among them. Joining is retried until one of the hosts responds.
	Join []string
	// Key encrypts all traffic with AES: 16, 24 or 32 bytes, the same on all hosts. Without one, anyone who reaches the
	// port can use up limits, and read how they are used but not by which client.
	Key []byte
	// Bandwidth is the maximum number of bytes per second that this host sends, including network headers. At least
	// 10,000. Default DefaultBandwidth. Updates that do not fit wait, and the hottest keys are sent first.
	Bandwidth int64
	// Interval is how often changes are sent, 10ms to 10s. Default DefaultInterval.
	Interval time.Duration
	// In a fleet of up to MeshSize hosts, each host sends to all others. In a larger fleet, each host sends to Fanout
	// random others, which forward the packets. Defaults DefaultMesh and DefaultFanout.
	MeshSize, Fanout int
	// Probe is how often another host is probed, 50ms to 1m. A host is lost after it was silent for five times Probe or,
	// if that is longer, five times Interval. In a fleet of more than MeshSize hosts, it is lost after up to 25 s. Default
	// DefaultProbe.
	Probe time.Duration
	// Forget is the time after which a lost host that has neither returned nor left is no longer known. Default
	// DefaultForget.
	Forget time.Duration
	// OnEvent is called with events, by one goroutine. If it is too slow, events are dropped and counted. It must not
	// close the Limiter. Default logs events with slog.
	OnEvent func(Event)
	// Random is the source of randomness. Default a ChaCha8 with a random seed.
	Random rand.Source
	// Transport wraps the sockets, for tests of network faults. Default uses them directly.
	Transport func(*memberlist.NetTransport) memberlist.NodeAwareTransport
	// Mesh creates the network, for simulators. Default is memberlist on BindAddr.
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

// A Mesh carries packets between the hosts of a fleet. A simulator has its own.
type Mesh interface {
	// Send sends a packet to a host, or loses it. It does not wait, and does not keep the packet.
	Send(to string, packet []byte) error
	// Close leaves the other hosts.
	Close() error
}

// A Listener receives packets and states from a Mesh.
type Listener interface {
	// Receive handles a packet of any content. It does not keep it.
	Receive(packet []byte)
	// Joined is called when a host has joined.
	Joined(host string)
	// State returns the state for a host that joins.
	State() []byte
	// Merge handles the State of another host.
	Merge(state []byte)
}

// A Limiter decides by its own counters, and exchanges updates of what was consumed with the other hosts. It needs no
// server, and no decision waits for another host. The consumption of all hosts counts: over-admission is a debt, which
// is repaid before any host admits more.
//
// # Over-admission
//
// At most min((N−1)·(R + r·S), (λ−r)·S) units of a key pass above its limit, for N hosts, a burst R, a rate r,
// an arrival rate λ, and updates of age S at most. S is a round, the network delay, and another round for each lost
// packet: with a fifth of the packets lost and a delay of 50 ms, updates of the hottest keys are older than 1 s once in
// a million times. Keys that rarely change share the remaining bandwidth. With 10 hosts, 100,000 keys, 100,000
// decisions per second and 1 MB/s per host, the 1,000 hottest keys are updated within 0.2 s and the others within 20 s.
//
// # Updates
//
// Each host sends its total consumption of a key, not differences: a lost packet only delays, a repeated one has no
// effect, and a late one is recognized. Packets are sent by UDP, to all hosts or, if there are more than
// Options.MeshSize, to some that forward them. Forwarding takes more bytes, Fanout times as many, but works where not
// every host reaches every other. Hosts also exchange the keys with the highest levels by TCP: when a host joins, and
// every ten times Options.Probe.
//
// # Membership
//
// Hosts find each other by hashicorp/memberlist. A host that leaves says so. A host that was silent for five times
// Options.Probe is lost. It stays known until it returns, another host has its address, or Options.Forget has passed;
// meanwhile rules with headgate.PartitionShare use only the live hosts' share of the limit. In every round hosts send a
// packet to lost ones, so that both sides of a partition notice its end, and send each other what they have missed. A
// host that restarts is a new incarnation with totals of 0; it learns from the others what was consumed.
//
// # Windows
//
// Hosts send their time of day with every packet, about every second at least, and use the median of the live hosts'
// clocks, the earlier one of the middle two for an even number. So all use the same clock within network delays, as
// long as they know the same hosts, and a right one as long as most are right. A host whose clock differs by more than
// fleet.MaxClockSkew is reported.
//
// Of two hosts with the same name, the one that the others know counts until it leaves or is lost. The second is
// ignored, and both it and hosts that meet it report NameTaken.
//
// A host accepts only hosts with the same cluster name, encryption key and secret, and reports others. Two clusters
// that have all of these in common are one.
type Limiter struct {
	options Options
	clock   clock.Stopwatch
	fleet   uint64 // hash of the cluster's name and secret, in each packet
	self    fleet.Peer
	ledger.Decider
	ledger  *ledger.Ledger
	members *membership
	events  *notifier
	sender  *sender
	inbox   inbox
	clocks  clocks
	mesh    atomic.Pointer[Mesh] // nil until it is created
	closing sync.Once
	failed  error // the error of Close

	randomMu sync.Mutex
	random   *rand.Rand
}

var (
	_ headgate.Limiter = (*Limiter)(nil)
	_ fleet.Members    = (*Limiter)(nil)
)

// New returns a Limiter that listens and joins. It must be closed. It sets Members of the ledger's options; Secret is
// derived from the encryption key and the cluster's name by default, and Lag is 10 s.
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

// Close sends what is left to send, leaves the fleet and stops.
func (g *Limiter) Close() error {
	g.closing.Do(func() {
		g.sender.close()
		g.failed = g.currentMesh().Close()
		g.events.close()
		g.failed = errors.Join(g.failed, g.ledger.Close())
	})
	return g.failed
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

// Addr returns the address at which others reach this host, or "" if the mesh has none.
func (g *Limiter) Addr() string {
	if m, ok := g.currentMesh().(*memberMesh); ok {
		return m.Addr()
	}
	return ""
}

// Live returns the number of live hosts, including this one.
func (g *Limiter) Live() int { return g.members.Live() }

// Known returns the number of hosts including lost ones that have not left.
func (g *Limiter) Known() int { return g.members.Known() }

// hostLeft handles the leaving of a host.
func (g *Limiter) hostLeft(host string) {
	if g.members.remove(host) {
		g.forget(host)
		g.events.notify(HostLeft, host, "")
	}
}

// lostProbes is the number of probes for which a host must be silent to be lost.
const lostProbes = 5

// lostAfter returns how long a host must be silent to be lost.
func (g *Limiter) lostAfter() time.Duration {
	every := max(g.options.Probe, g.options.Interval)
	if others := len(g.members.live()); others >= g.options.MeshSize {
		every = max(every, maxSilenceInLarge(others))
	}
	return lostProbes * every
}

// checkHosts finds lost and forgotten hosts. d is how long this host was running since the last call.
func (g *Limiter) checkHosts(d time.Duration) {
	lost, gone := g.members.advance(d, g.lostAfter())
	for _, host := range lost {
		g.events.notify(HostLost, host, "")
	}
	for _, host := range gone {
		g.forget(host)
		g.events.notify(HostForgotten, host, "")
	}
	if g.members.changed.Swap(false) {
		g.dropReplaced()
	}
}

// dropReplaced forgets lost hosts whose address a live host has: they were restarted under another name.
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
			g.events.notify(HostForgotten, host, "its address is that of "+name+" now")
		}
	}
}

// forget makes the mesh forget a host's address.
func (g *Limiter) forget(host string) {
	if m, ok := g.currentMesh().(*memberMesh); ok {
		m.forget(host)
	}
}
