package gossip

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

const (
	// maxState is the maximum size in bytes of Listener.State: about 9,000 keys.
	maxState = 256 << 10
	// stateTallies is the maximum number of keys in Listener.State; a tally takes at least 27 bytes.
	stateTallies = maxState / 27
)

// A receiver is the Listener of a Limiter.
type receiver struct{ gossip *Limiter }

var _ Listener = receiver{}

// An inbox has the state of other hosts, as learned from their packets.
type inbox struct {
	mu     sync.Mutex
	peers  peerStates
	limits limitTable
	// The content of the current packet. The memory is reused for the next packet.
	packetTallies []packetTally
	packetLimits  []headgate.Limit
	tallies       []tally.Tally // without aliases

	receivedCount, receivedBytes atomic.Int64
	duplicates                   atomic.Int64
	malformed                    atomic.Int64
	outdated                     atomic.Int64
	unknownAliases               atomic.Int64
}

// Receive implements Listener.
func (r receiver) Receive(packet []byte) {
	g := r.gossip
	g.inbox.receivedCount.Add(1)
	g.inbox.receivedBytes.Add(int64(len(packet) + packetOverhead))
	from, ok := g.receive(packet)
	if ok {
		g.sender.forward(packet, from)
	}
	if g.sender.received.roundRequested.Swap(false) {
		g.sender.hurry()
	}
}

// receive handles a packet. It returns the host that wrote it, and whether the packet must be forwarded.
func (g *Limiter) receive(packet []byte) (from string, ok bool) {
	in := &g.inbox
	r := packetReader{rest: packet}
	head, name, err := r.header()
	if err != nil || len(packet) > maxPacket {
		if errors.Is(err, errVersion) && head.fleet == g.fleet {
			in.malformed.Add(1)
			g.events.notify(OtherVersion, string(name), err.Error())
			return "", false
		}
		g.countMalformed(err)
		return "", false
	}
	if head.fleet != g.fleet {
		g.events.notify(OtherSecret, string(name), "")
		return "", false
	}
	if string(name) == g.self.Name {
		return "", false // another host has forwarded a packet of this host or of its previous incarnation
	}

	in.mu.Lock()
	defer in.mu.Unlock()
	if !g.isCurrent(name, &head) {
		in.outdated.Add(1)
		return "", false
	}
	now := g.clock.Elapsed()
	peer, first := in.peers.get(name, head.from.Incarnation, now)
	peer.setIncarnation(head.from.Incarnation)
	if first || peer.uptime == 0 {
		g.sender.received.hostJoined.Store(true)
	}
	if head.kind == requestPacket {
		g.sender.received.keysRequested.Store(true)
		g.sender.received.roundRequested.Store(true)
	}
	if !first && head.number > peer.newestNumber+missedRounds && now-peer.receivedAt >= g.missedAfter() {
		g.sender.received.updatesMissed.Store(true)
		g.sender.received.roundRequested.Store(true)
	}
	peer.receivedAt = now
	if head.number != 0 && peer.isDuplicate(head.number) {
		in.duplicates.Add(1)
		return "", false
	}
	if g.members.received(peer.peer.Name) {
		g.events.notify(PeerJoined, peer.peer.Name, "")
	}
	if head.kind == leavePacket {
		g.hostLeft(peer.peer.Name)
		return peer.peer.Name, true
	}
	in.packetTallies, in.packetLimits, err = r.tallies(in.packetTallies[:0], in.packetLimits)
	if err != nil {
		g.countMalformed(err)
		return "", false
	}
	if len(in.packetTallies) > 0 {
		g.sender.received.updateAt.Store(int64(now))
	}
	in.resolveAliases(peer)
	peer.uptime = max(peer.uptime, head.uptime)
	if peer.addClock(head.wallClock, g.ledger.WallClock(g.ledger.Uptime()), g.clock.Elapsed()) {
		g.updateClockLocked()
	}
	g.ledger.Apply(peer.peer, head.uptime, in.tallies)
	return peer.peer.Name, true
}

// resolveAliases sets in.tallies to the tallies of the packet, except for those with unknown aliases.
func (in *inbox) resolveAliases(peer *peerState) {
	in.tallies = in.tallies[:0]
	for i := range in.packetTallies {
		t := &in.packetTallies[i]
		switch {
		case !t.short && t.alias != 0:
			peer.addAlias(t, in.limits.get(&t.tally.Limit))
		case t.short && !peer.resolveAlias(t):
			in.unknownAliases.Add(1)
			continue
		}
		if peer.recentKeys == nil {
			peer.recentKeys = new([maxRecentKeys]tally.Key)
		}
		peer.recentKeys[binary.LittleEndian.Uint16(t.tally.Key[8:])%maxRecentKeys] = t.tally.Key
		in.tallies = append(in.tallies, t.tally)
	}
}

// isCurrent reports whether a packet is from the current incarnation of the host named in it. If the mesh knows a host
// with that name, only the incarnation that the mesh knows is current. So a second host with the same name cannot make
// the first one leave. If the mesh does not know the name, a new incarnation replaces the former one.
func (g *Limiter) isCurrent(name []byte, head *header) bool {
	peer := g.inbox.peers[string(name)]
	same := peer != nil && peer.peer.Incarnation == head.from.Incarnation
	if same && head.kind != leavePacket {
		return true // even if the mesh already knows a later incarnation, which has not sent a packet yet
	}
	if m, ok := g.currentMesh().(*memberMesh); ok {
		if incarnation, known := m.incarnation(name); known {
			return head.from.Incarnation == incarnation
		}
	}
	return peer == nil || same || !peer.isFormer(head.from.Incarnation)
}

func (g *Limiter) countMalformed(err error) {
	g.inbox.malformed.Add(1)
	detail := errMalformed.Error()
	if err != nil {
		detail = err.Error()
	}
	g.events.notify(BadPacket, "", detail)
}

// Joined implements Listener.
func (r receiver) Joined(host string) {
	if host != r.gossip.self.Name && r.gossip.members.join(host) {
		r.gossip.events.notify(PeerJoined, host, "")
	}
}

// State implements Listener.
func (r receiver) State() []byte { return r.gossip.state() }

// Merge implements Listener.
func (r receiver) Merge(state []byte) {
	for len(state) > 0 {
		size, n := binary.Uvarint(state)
		if n <= 0 || size > maxPacket || size > uint64(len(state)-n) {
			r.gossip.countMalformed(nil)
			return
		}
		r.gossip.receive(state[n : n+int(size)])
		state = state[n+int(size):]
	}
}

// state returns tallies of the keys with the highest levels, in a sequence of packets with their sizes in front. The
// packets have the number 0, because they are not forwarded.
func (g *Limiter) state() []byte {
	keys := g.heaviestKeys(stateTallies, true)
	head := header{fleet: g.fleet, from: g.self}
	var tallies []tally.Tally
	head.uptime, tallies = g.sender.talliesOf(keys)
	head.wallClock = g.ledger.WallClock(head.uptime)
	var state, packet []byte
	var writer packetWriter
	for first := true; first || len(tallies) > 0; first = false { // at least one packet, because it has the clock
		writer.start(&head)
		n := 0
		for n < len(tallies) && writer.add(&packetTally{tally: tallies[n]}) {
			n++
		}
		packet = writer.finish(packet[:0])
		if n == 0 && len(tallies) > 0 || len(state)+len(packet)+binary.MaxVarintLen32 > maxState {
			break
		}
		state = binary.AppendUvarint(state, uint64(len(packet)))
		state = append(state, packet...)
		tallies = tallies[n:]
	}
	g.sender.ownBudget.spend(g.clock.Elapsed(), len(state))
	return state
}
