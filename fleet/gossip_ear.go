package fleet

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

const (
	// maxState is how long a state is at most: about 9,000 keys.
	maxState = 256 << 10
	// stateTallies is how many keys are looked at for it.
	stateTallies = maxState / 27
)

// An ear is the side of a Gossip that its Mesh speaks to.
type ear struct{ gossip *Gossip }

var _ Listener = ear{}

// A hearing is what a Gossip knows of what others have sent.
type hearing struct {
	mu       sync.Mutex
	others   correspondents
	glossary glossary
	scratch  []told
	limits   []headgate.Limit
	tallies  []Tally

	heard, heardBytes atomic.Int64
	duplicates        atomic.Int64
	malformed         atomic.Int64
	outdated          atomic.Int64
	puzzling          atomic.Int64
}

// Hear implements Listener.
func (e ear) Hear(packet []byte) {
	g := e.gossip
	g.hearing.heard.Add(1)
	g.hearing.heardBytes.Add(int64(len(packet) + packetOverhead))
	from, ok := g.hear(packet)
	if ok {
		g.spread.pass(packet, from)
	}
	if g.spread.hurried.Swap(false) {
		g.spread.hurry()
	}
}

// hear takes in a packet. It returns whose it is, and whether it is to be passed on.
func (g *Gossip) hear(packet []byte) (from string, ok bool) {
	h := &g.hearing
	r := reader{rest: packet}
	head, name, err := r.header()
	if err != nil || len(packet) > maxPacket {
		if errors.Is(err, errVersion) && head.fleet == g.fleet {
			h.malformed.Add(1)
			g.herald.tell(OtherVersion, string(name), err.Error())
			return "", false
		}
		g.refuse(err)
		return "", false
	}
	if head.fleet != g.fleet {
		g.herald.tell(OtherSecret, string(name), "")
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
	c, first := h.others.of(name, head.from.Incarnation, now)
	c.begin(head.from.Incarnation)
	if first || c.latest == 0 {
		g.spread.newcomer.Store(true)
	}
	if head.kind == asking {
		g.spread.asked.Store(true)
		g.spread.hurried.Store(true)
	}
	if !first && head.number > c.newest+missedRounds && now-c.heard >= g.missedAfter() {
		g.spread.missed.Store(true)
		g.spread.hurried.Store(true)
	}
	c.heard = now
	if head.number != 0 && c.again(head.number) {
		h.duplicates.Add(1)
		return "", false
	}
	if g.roster.heard(c.peer.Name) {
		g.herald.tell(HostJoined, c.peer.Name, "")
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
		g.spread.heardNews.Store(int64(now))
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
			c.heardOf = new([heardKeys]Key)
		}
		c.heardOf[binary.LittleEndian.Uint16(t.tally.Key[8:])%heardKeys] = t.tally.Key
		h.tallies = append(h.tallies, t.tally)
	}
	c.latest = max(c.latest, head.uptime)
	if c.dated(head.date, g.ledger.date(g.ledger.Uptime()), g.clock.Now()) {
		g.agreed()
	}
	g.ledger.Absorb(c.peer, head.uptime, h.tallies)
	return c.peer.Name, true
}

// heeds reports whether the incarnation that a packet is from is the one to listen to under its name. The mesh has the last
// word: if it knows the host of that name, a second one that calls itself the same is not heard, and cannot take the
// first one's leave. Where it knows none, whoever is new follows who was there before.
func (g *Gossip) heeds(name []byte, head *header) bool {
	c := g.hearing.others[string(name)]
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

func (g *Gossip) refuse(err error) {
	g.hearing.malformed.Add(1)
	detail := errTorn.Error()
	if err != nil {
		detail = err.Error()
	}
	g.herald.tell(BadPacket, "", detail)
}

// Joined implements Listener.
func (e ear) Joined(host string) {
	if host != e.gossip.self.Name && e.gossip.roster.alive(host) {
		e.gossip.herald.tell(HostJoined, host, "")
	}
}

// State implements Listener.
func (e ear) State() []byte { return e.gossip.state() }

// Merge implements Listener.
func (e ear) Merge(state []byte) {
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
func (g *Gossip) state() []byte {
	keys := g.hottest(stateTallies, true)
	head := header{fleet: g.fleet, from: g.self}
	var tallies []Tally
	head.uptime, tallies = g.spread.look(keys)
	head.date = g.ledger.date(head.uptime)
	var state, packet []byte
	var l letter
	for first := true; first || len(tallies) > 0; first = false { // if there is nothing else, the date
		l.begin(&head)
		n := 0
		for n < len(tallies) && l.add(&told{tally: tallies[n]}) {
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
	g.spread.own.spend(g.clock.Now(), len(state))
	return state
}
