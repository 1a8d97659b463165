package gossip

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

const (
	// maxState is the maximum size of a state: about 9,000 keys.
	maxState = 256 << 10
	// stateTallies is the number of keys considered for it.
	stateTallies = maxState / 27
)

// A receiver is the Listener of a Limiter.
type receiver struct{ gossip *Limiter }

var _ Listener = receiver{}

// An inbox is what a Limiter knows of what other hosts have sent.
type inbox struct {
	mu           sync.Mutex
	peers        peerStates
	limits       limitTable
	scratch      []packetTally
	packetLimits []headgate.Limit
	tallies      []ledger.Tally

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
	if g.sender.wantsRound.Swap(false) {
		g.sender.hurry()
	}
}

// receive handles a packet. It returns the sender, and whether the packet is to be forwarded.
func (g *Limiter) receive(packet []byte) (from string, ok bool) {
	h := &g.inbox
	r := packetReader{rest: packet}
	head, name, err := r.header()
	if err != nil || len(packet) > maxPacket {
		if errors.Is(err, errVersion) && head.fleet == g.fleet {
			h.malformed.Add(1)
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
		return "", false // our own, forwarded, or from before a restart
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if !g.isCurrent(name, &head) {
		h.outdated.Add(1)
		return "", false
	}
	now := g.clock.Elapsed()
	c, first := h.peers.get(name, head.from.Incarnation, now)
	c.setIncarnation(head.from.Incarnation)
	if first || c.uptime == 0 {
		g.sender.hasNewcomer.Store(true)
	}
	if head.kind == requestPacket {
		g.sender.wasAsked.Store(true)
		g.sender.wantsRound.Store(true)
	}
	if !first && head.number > c.newestNumber+missedRounds && now-c.receivedAt >= g.missedAfter() {
		g.sender.hasMissed.Store(true)
		g.sender.wantsRound.Store(true)
	}
	c.receivedAt = now
	if head.number != 0 && c.isDuplicate(head.number) {
		h.duplicates.Add(1)
		return "", false
	}
	if g.members.received(c.peer.Name) {
		g.events.notify(HostJoined, c.peer.Name, "")
	}
	if head.kind == leavePacket {
		g.hostLeft(c.peer.Name)
		return c.peer.Name, true
	}
	h.scratch, h.packetLimits, err = r.tallies(h.scratch[:0], h.packetLimits)
	if err != nil {
		g.countMalformed(err)
		return "", false
	}
	if len(h.scratch) > 0 {
		g.sender.updateReceivedAt.Store(int64(now))
	}
	h.tallies = h.tallies[:0]
	for i := range h.scratch {
		t := &h.scratch[i]
		switch {
		case !t.short && t.alias != 0:
			c.addAlias(t, h.limits.get(&t.tally.Limit))
		case t.short && !c.resolveAlias(t):
			h.unknownAliases.Add(1)
			continue
		}
		if c.recentKeys == nil {
			c.recentKeys = new([maxRecentKeys]ledger.Key)
		}
		c.recentKeys[binary.LittleEndian.Uint16(t.tally.Key[8:])%maxRecentKeys] = t.tally.Key
		h.tallies = append(h.tallies, t.tally)
	}
	c.uptime = max(c.uptime, head.uptime)
	if c.addClock(head.wallClock, g.ledger.WallClock(g.ledger.Uptime()), g.clock.Elapsed()) {
		g.updateClockLocked()
	}
	g.ledger.Apply(c.peer, head.uptime, h.tallies)
	return c.peer.Name, true
}

// isCurrent reports whether a packet is of the current incarnation of its name. If the mesh knows the host of that
// name, only that one counts, and a second host of the name cannot make the first one leave. Otherwise a new
// incarnation replaces the former one.
func (g *Limiter) isCurrent(name []byte, head *header) bool {
	c := g.inbox.peers[string(name)]
	running := c != nil && c.peer.Incarnation == head.from.Incarnation
	if running && head.kind != leavePacket {
		return true // until the next incarnation sends, if the mesh knows one
	}
	if m, ok := g.currentMesh().(*memberMesh); ok {
		if incarnation, known := m.incarnation(name); known {
			return head.from.Incarnation == incarnation
		}
	}
	return c == nil || running || !c.isFormer(head.from.Incarnation)
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
		r.gossip.events.notify(HostJoined, host, "")
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

// state returns the keys with the highest levels as whole tallies, in packets with their sizes in front. The packets
// have no number, since they are not forwarded.
func (g *Limiter) state() []byte {
	keys := g.heaviestKeys(stateTallies, true)
	head := header{fleet: g.fleet, from: g.self}
	var tallies []ledger.Tally
	head.uptime, tallies = g.sender.talliesOf(keys)
	head.wallClock = g.ledger.WallClock(head.uptime)
	var state, packet []byte
	var writer packetWriter
	for first := true; first || len(tallies) > 0; first = false { // at least one, for the clock
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
