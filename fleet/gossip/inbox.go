package gossip

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/ledger"
)

const (
	// maxState is how long a state is at most: about 9,000 keys.
	maxState = 256 << 10
	// stateTallies is how many keys are looked at for it.
	stateTallies = maxState / 27
)

// An receiver is the side of a Gossip that its Mesh speaks to.
type receiver struct{ gossip *Limiter }

var _ Listener = receiver{}

// A inbox is what a Gossip knows of what others have sent.
type inbox struct {
	mu       sync.Mutex
	others   peerStates
	glossary glossary
	scratch  []packetTally
	limits   []headgate.Limit
	tallies  []ledger.Tally

	heard, heardBytes atomic.Int64
	duplicates        atomic.Int64
	malformed         atomic.Int64
	outdated          atomic.Int64
	puzzling          atomic.Int64
}

// Receive implements Listener.
func (e receiver) Receive(packet []byte) {
	g := e.gossip
	g.inbox.heard.Add(1)
	g.inbox.heardBytes.Add(int64(len(packet) + packetOverhead))
	from, ok := g.hear(packet)
	if ok {
		g.sender.pass(packet, from)
	}
	if g.sender.hurried.Swap(false) {
		g.sender.hurry()
	}
}

// hear takes in a packet. It returns whose it is, and whether it is to be passed on.
func (g *Limiter) hear(packet []byte) (from string, ok bool) {
	h := &g.inbox
	r := packetReader{rest: packet}
	head, name, err := r.header()
	if err != nil || len(packet) > maxPacket {
		if errors.Is(err, errVersion) && head.fleet == g.fleet {
			h.malformed.Add(1)
			g.events.notify(OtherVersion, string(name), err.Error())
			return "", false
		}
		g.refuse(err)
		return "", false
	}
	if head.fleet != g.fleet {
		g.events.notify(OtherSecret, string(name), "")
		return "", false
	}
	if string(name) == g.self.Name {
		return "", false // our own, passed on, or from before a restart
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if !g.heeds(name, &head) {
		h.outdated.Add(1)
		return "", false
	}
	now := g.clock.Now()
	c, first := h.others.get(name, head.from.Incarnation, now)
	c.begin(head.from.Incarnation)
	if first || c.latest == 0 {
		g.sender.newcomer.Store(true)
	}
	if head.kind == asking {
		g.sender.asked.Store(true)
		g.sender.hurried.Store(true)
	}
	if !first && head.number > c.newest+missedRounds && now-c.heard >= g.missedAfter() {
		g.sender.missed.Store(true)
		g.sender.hurried.Store(true)
	}
	c.heard = now
	if head.number != 0 && c.again(head.number) {
		h.duplicates.Add(1)
		return "", false
	}
	if g.members.heard(c.peer.Name) {
		g.events.notify(HostJoined, c.peer.Name, "")
	}
	if head.kind == farewell {
		g.farewell(c.peer.Name)
		return c.peer.Name, true
	}
	h.scratch, h.limits, err = r.tallies(h.scratch[:0], h.limits)
	if err != nil {
		g.refuse(err)
		return "", false
	}
	if len(h.scratch) > 0 {
		g.sender.heardNews.Store(int64(now))
	}
	h.tallies = h.tallies[:0]
	for i := range h.scratch {
		t := &h.scratch[i]
		switch {
		case !t.short && t.nick != 0:
			c.learn(t, h.glossary.of(&t.tally.Limit))
		case t.short && !c.understand(t):
			h.puzzling.Add(1)
			continue
		}
		if c.heardOf == nil {
			c.heardOf = new([heardKeys]ledger.Key)
		}
		c.heardOf[binary.LittleEndian.Uint16(t.tally.Key[8:])%heardKeys] = t.tally.Key
		h.tallies = append(h.tallies, t.tally)
	}
	c.latest = max(c.latest, head.uptime)
	if c.dated(head.date, g.ledger.WallClock(g.ledger.Uptime()), g.clock.Now()) {
		g.agreed()
	}
	g.ledger.Apply(c.peer, head.uptime, h.tallies)
	return c.peer.Name, true
}

// heeds reports whether the incarnation that a packet is from is the one to listen to under its name. The mesh has the last
// word: if it knows the host of that name, a second one that calls itself the same is not heard, and cannot take the
// first one's leave. Where it knows none, whoever is new follows who was there before.
func (g *Limiter) heeds(name []byte, head *header) bool {
	c := g.inbox.others[string(name)]
	running := c != nil && c.peer.Incarnation == head.from.Incarnation
	if running && head.kind != farewell {
		return true // until the next one speaks, if the mesh knows of a next
	}
	if m, ok := g.network().(*memberMesh); ok {
		if incarnation, known := m.incarnation(name); known {
			return head.from.Incarnation == incarnation
		}
	}
	return c == nil || running || !c.over(head.from.Incarnation)
}

func (g *Limiter) refuse(err error) {
	g.inbox.malformed.Add(1)
	detail := errTorn.Error()
	if err != nil {
		detail = err.Error()
	}
	g.events.notify(BadPacket, "", detail)
}

// Joined implements Listener.
func (e receiver) Joined(host string) {
	if host != e.gossip.self.Name && e.gossip.members.alive(host) {
		e.gossip.events.notify(HostJoined, host, "")
	}
}

// State implements Listener.
func (e receiver) State() []byte { return e.gossip.state() }

// Merge implements Listener.
func (e receiver) Merge(state []byte) {
	for len(state) > 0 {
		size, n := binary.Uvarint(state)
		if n <= 0 || size > maxPacket || size > uint64(len(state)-n) {
			e.gossip.refuse(nil)
			return
		}
		e.gossip.hear(state[n : n+int(size)])
		state = state[n+int(size):]
	}
}

// state tells the keys most in use, whole, in packets with their sizes before them. They have no number, since they are
// not passed on.
func (g *Limiter) state() []byte {
	keys := g.hottest(stateTallies, true)
	head := header{fleet: g.fleet, from: g.self}
	var tallies []ledger.Tally
	head.uptime, tallies = g.sender.look(keys)
	head.date = g.ledger.WallClock(head.uptime)
	var state, packet []byte
	var l packetWriter
	for first := true; first || len(tallies) > 0; first = false { // if there is nothing else, the date
		l.begin(&head)
		n := 0
		for n < len(tallies) && l.add(&packetTally{tally: tallies[n]}) {
			n++
		}
		packet = l.seal(packet[:0])
		if n == 0 && len(tallies) > 0 || len(state)+len(packet)+binary.MaxVarintLen32 > maxState {
			break
		}
		state = binary.AppendUvarint(state, uint64(len(packet)))
		state = append(state, packet...)
		tallies = tallies[n:]
	}
	g.sender.own.spend(g.clock.Now(), len(state))
	return state
}
