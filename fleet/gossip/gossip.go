package gossip

import (
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
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/ledger"
)

// Defaults for GossipOptions that are zero.
const (
	DefaultCluster   = "headgate"
	DefaultAddr      = ":8085"
	DefaultBandwidth = 1_000_000
	DefaultInterval  = 50 * time.Millisecond
	DefaultMesh      = 16
	DefaultFanout    = 4
	DefaultProbe     = time.Second
	DefaultForget    = 24 * time.Hour
)

// Options are the settings of a Gossip.
type Options struct {
	// Name is this host's, of up to 64 bytes. No two hosts may have the same. There is no default.
	Name string
	// Cluster is the name of the fleet, of up to 64 bytes; hosts of other fleets are not listened to. Default DefaultGossipCluster.
	Cluster string
	// BindAddr is the host:port to listen on, by UDP and TCP. Port 0 picks one. Default DefaultGossipAddr.
	BindAddr string
	// Advertise is the host:port at which others reach this host. Default where it listens, or, if that is everywhere, its
	// first private address.
	Advertise string
	// Join are hosts to join, as host:port. A name may stand for several. One of them is enough, this one may be among them,
	// and none need be there yet: it is tried again until they are.
	Join []string
	// Key encrypts all that is sent, with AES: 16, 24 or 32 bytes, the same on all hosts. Without one, anyone who reaches
	// the port can use up limits and read how they are used, though not by whom.
	Key []byte
	// Bandwidth is how many bytes a second this host sends at most, the network's own included. At least 10,000. Default
	// DefaultGossipBandwidth. What does not fit waits, hottest first.
	Bandwidth int64
	// Interval is how often changes are told, 10ms to 10s. Default DefaultGossipInterval.
	Interval time.Duration
	// MeshSize is up to how many hosts everyone tells everyone. In a larger fleet each tells Fanout others at random, and
	// these pass it on. Defaults DefaultGossipMesh and DefaultGossipFanout.
	MeshSize, Fanout int
	// Probe is how often another host is checked, 50ms to 1m. A host that was silent for five times that, or five times Interval if
	// that is longer, is lost; in a fleet of more than MeshSize hosts, after 25 s at most if that is longer. Default
	// DefaultGossipProbe.
	Probe time.Duration
	// Forget is after how long a host that was lost, and has neither come back nor said farewell, is not among the known
	// any more. Default DefaultGossipForget.
	Forget time.Duration
	// OnEvent is told what happens among the hosts, by one goroutine. Events that it is too slow for are dropped and
	// counted. It must not close the Gossip. Default is to log them with slog.
	OnEvent func(Event)
	// Random is where chance comes from. Default one that nobody foresees.
	Random rand.Source
	// Transport wraps the sockets, for tests of what a network may do. Default is to leave them as they are.
	Transport func(*memberlist.NetTransport) memberlist.NodeAwareTransport
	// Mesh makes the network, for simulators. Default is memberlist on BindAddr.
	Mesh func(Listener) (Mesh, error)
}

func (o *Options) validate() error {
	or := func(v, def time.Duration) time.Duration {
		if v == 0 {
			return def
		}
		return v
	}
	if o.Cluster == "" {
		o.Cluster = DefaultCluster
	}
	if o.BindAddr == "" {
		o.BindAddr = DefaultAddr
	}
	if o.Bandwidth == 0 {
		o.Bandwidth = DefaultBandwidth
	}
	if o.MeshSize == 0 {
		o.MeshSize = DefaultMesh
	}
	if o.Fanout == 0 {
		o.Fanout = DefaultFanout
	}
	o.Interval = or(o.Interval, DefaultInterval)
	o.Probe = or(o.Probe, DefaultProbe)
	o.Forget = or(o.Forget, DefaultForget)
	if o.Random == nil {
		var seed [32]byte
		_, _ = crand.Read(seed[:]) // does not fail
		o.Random = rand.NewChaCha8(seed)
	}
	switch {
	case o.Name == "" || len(o.Name) > fleet.MaxNameBytes:
		return fmt.Errorf("fleet: gossip Name %q: want 1 to %d bytes", o.Name, fleet.MaxNameBytes)
	case len(o.Cluster) > fleet.MaxNameBytes:
		return fmt.Errorf("fleet: Cluster %q: want at most %d bytes", o.Cluster, fleet.MaxNameBytes)
	case o.Bandwidth < 10_000 || o.Bandwidth > headgate.MaxCount/1000:
		return fmt.Errorf("fleet: gossip Bandwidth %d: want 10,000 bytes a second or more", o.Bandwidth)
	case o.Interval < 10*time.Millisecond || o.Interval > 10*time.Second:
		return fmt.Errorf("fleet: gossip Interval %v: want 10ms to 10s", o.Interval)
	case o.MeshSize < 1 || o.Fanout < 1 || o.Fanout > 32:
		return fmt.Errorf("fleet: MeshSize %d, Fanout %d: want 1 or more, and a Fanout up to 32", o.MeshSize, o.Fanout)
	case o.Probe < 50*time.Millisecond || o.Probe > time.Minute:
		return fmt.Errorf("fleet: gossip Probe %v: want 50ms to 1m", o.Probe)
	case o.Forget < 0:
		return fmt.Errorf("fleet: gossip Forget %v: want more than 0", o.Forget)
	}
	for _, seed := range o.Join {
		if err := checkSeed(seed); err != nil {
			return err
		}
	}
	if o.Key != nil {
		if err := memberlist.ValidateKey(o.Key); err != nil {
			return fmt.Errorf("fleet: gossip Key of %d bytes: %w", len(o.Key), err)
		}
	}
	return nil
}

// secret returns what keys are hashed with unless the ledger is given something: the same on all hosts of a fleet.
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

// A Listener is what a Mesh speaks to.
type Listener interface {
	// Receive takes a packet that a host has sent, whatever is in it. It does not keep it.
	Receive(packet []byte)
	// Joined says that a host is there.
	Joined(host string)
	// State returns what a host that joins should know.
	State() []byte
	// Merge takes what State of another host has returned.
	Merge(state []byte)
}

// A Limiter is a headgate.Limiter that decides by its own counters, tells the other hosts what it has let pass, and hears it
// from them. It needs no server, and no decision waits for another host. What all have let pass is what counts: a host that
// hears that others have used up a limit lets nothing more pass, and what slipped through before it knew is a debt that is
// repaid before anybody lets more pass. See [Ledger] for how that is counted.
//
// # How much slips through
//
// At most min((N−1)·(R + r·S), (λ−r)·S) units of a key beyond its limit: N hosts, a burst R, a rate r, requests that come at
// a rate λ, and news that is S old at most. S is a round, the way through the network, and another round for each packet
// that is lost: with a fifth of the packets lost and 50 ms on the way, news of the keys that are used most is older than
// 1 s once in a million times. Keys that hardly change take turns for the bandwidth that is left. With 10 hosts, 100,000
// keys, 100,000 decisions a second and 1 MB/s a host, the 1,000 hottest keys are fresh within 0.2 s and
// the others within 20 s.
//
// # How it spreads
//
// Each host tells how much it has consumed of a key in all, not how much more: what is lost only delays, what comes twice
// adds nothing, and what comes late is seen to be old. Packets go by UDP, to all hosts or, if there are more than
// GossipOptions.MeshSize, to some who pass them on. In bytes that is the dearer way: a byte then costs each host Fanout times
// the number of hosts rather than just their number; it is the better one where not everybody reaches everybody. Hosts
// also exchange what is most consumed by TCP, when one joins and now and then.
//
// # Who is there
//
// Hosts find each other by hashicorp/memberlist. A host that leaves says so. A host that was silent for five times
// GossipOptions.Probe is lost. It stays known until it is heard again, another host has its address, or GossipOptions.Forget has
// passed; meanwhile rules with headgate.PartitionShare use only the share of the limit of the live hosts. In every round
// hosts send a packet to those that are lost, so that both sides of a cut notice when it ends, and tell each other what they have
// missed. A host that restarts is a new incarnation and begins at nothing; it learns from the others what was consumed.
//
// # Windows
//
// Hosts tell their own dates with all that they tell, at least every second or so, and each goes by the median of those that live,
// the earlier of the two in the middle if their number is even. So all go by the same, but for how long a packet takes, as long as
// they know of the same hosts; and it is a right one as long as most are. A host whose date is off by more than
// MaxDateOff is told of.
//
// Of two hosts with the same name, the one that the others know is listened to until it leaves or is lost; the second is
// not, and NameTaken is told by those that meet it and by itself.
//
// A host listens to those with the same cluster name, encryption key and secret, and reports others. Two clusters that have
// all of these in common are one.
type Limiter struct {
	options Options
	clock   fleet.Clock
	fleet   uint64
	self    fleet.Peer
	ledger.Decider
	ledger  *ledger.Ledger
	members *membership
	events  *notifier
	sender  *sender
	inbox   inbox
	clocks  clocks
	mesh    atomic.Pointer[Mesh] // nil until it is made
	closing sync.Once
	failed  error // of closing

	dice   sync.Mutex
	random *rand.Rand
}

var (
	_ headgate.Limiter = (*Limiter)(nil)
	_ fleet.Members    = (*Limiter)(nil)
)

// New returns a Gossip that has begun to listen and to join. Close it. Of the ledger's options, Members is
// its own; a Secret that is left out is made from the encryption key and the cluster's name, and a Lag is 10 s.
func New(lo fleet.LedgerOptions, o Options) (*Limiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if lo.Clock == nil {
		lo.Clock = fleet.SystemClock()
	}
	if len(lo.Secret) == 0 {
		lo.Secret = o.secret()
	}
	g := &Limiter{options: o, clock: lo.Clock, fleet: fleetOf(o.Cluster, lo.Secret)}
	g.random = rand.New(o.Random)
	g.self = fleet.Peer{Name: o.Name, Incarnation: g.random.Uint64()}
	g.inbox.others, g.inbox.glossary = peerStates{}, glossary{}
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
	if g.ledger, err = ledger.New(lo, false); err != nil {
		return nil, err
	}
	g.Decider = g.ledger.Decider()
	g.ledger.CompareSums(g.self)
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

// defaultLag is how late news of keys is that hardly change, where bandwidth is short.
const defaultLag = 10 * time.Second

// fleetOf returns what tells one fleet from another.
func fleetOf(cluster string, secret []byte) uint64 {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("headgate gossip " + cluster))
	return binary.LittleEndian.Uint64(mac.Sum(nil))
}

// Close tells what is left to tell, says farewell and ends.
func (g *Limiter) Close() error {
	g.closing.Do(func() {
		g.sender.close()
		g.failed = g.network().Close()
		g.events.close()
		g.failed = errors.Join(g.failed, g.ledger.Close())
	})
	return g.failed
}

// network returns the mesh, or nil if it is being made.
func (g *Limiter) network() Mesh {
	if m := g.mesh.Load(); m != nil {
		return *m
	}
	return nil
}

// pick returns a number below n.
func (g *Limiter) pick(n int) int {
	g.dice.Lock()
	defer g.dice.Unlock()
	return g.random.IntN(n)
}

// Addr returns the address at which others reach this host, or nothing if the mesh has none.
func (g *Limiter) Addr() string {
	if m, ok := g.network().(*memberMesh); ok {
		return m.Addr()
	}
	return ""
}

// Live is how many hosts are heard of, this one included.
func (g *Limiter) Live() int { return g.members.Live() }

// Known is how many there are, those included that have fallen silent and not said farewell.
func (g *Limiter) Known() int { return g.members.Known() }

// farewell notes that a host has left.
func (g *Limiter) farewell(host string) {
	if g.members.left(host) {
		g.forget(host)
		g.events.notify(HostLeft, host, "")
	}
}

// lostProbes is for how many probes a host must be silent to be lost.
const lostProbes = 5

// lostAfter returns for how long a host must be silent to be lost.
func (g *Limiter) lostAfter() time.Duration {
	every := max(g.options.Probe, g.options.Interval)
	if others := len(g.members.others()); others >= g.options.MeshSize {
		every = max(every, quietInLarge(others))
	}
	return lostProbes * every
}

// watch notes which hosts are lost or forgotten after some more time in which this host did not stand still.
func (g *Limiter) watch(d time.Duration) {
	lost, gone := g.members.pass(d, g.lostAfter())
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

// dropReplaced forgets lost hosts whose address a live one has: they were started again under another name.
func (g *Limiter) dropReplaced() {
	m, ok := g.network().(*memberMesh)
	if !ok || len(g.members.missing()) == 0 {
		return
	}
	names := map[string]string{m.Addr(): g.self.Name}
	for _, host := range g.members.others() {
		names[m.address(host)] = host
	}
	for _, host := range g.members.missing() {
		if name := names[m.address(host)]; name != "" && g.members.left(host) {
			g.forget(host)
			g.events.notify(HostForgotten, host, "its address is that of "+name+" now")
		}
	}
}

// forget lets the mesh forget a host's address.
func (g *Limiter) forget(host string) {
	if m, ok := g.network().(*memberMesh); ok {
		m.forget(host)
	}
}
