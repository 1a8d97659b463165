package gossip

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// packetOverhead is the approximate size of a packet's headers: IP, UDP, and memberlist's checksum, label and
// encryption.
const packetOverhead = 80

// minPacket is the minimum size of the tallies that a round sends. Smaller packets would consist mostly of headers.
const minPacket = 256

// A sender sends this host's updates to other hosts in rounds, one per Options.Interval. In a fleet of more than
// Options.MeshSize hosts, it also forwards the packets of other hosts.
type sender struct {
	gossip        *Limiter
	ownBudget     budget // for this host's updates, including the bytes that other hosts need to forward them
	forwardBudget budget // for packets of other hosts that this host forwards
	received      receiveSignals
	counts        sendCounts

	mu     sync.Mutex // held during a round; guards the fields from here to packets
	closed bool
	timer  clock.Timer
	out    *outbox
	resend resend
	round  roundState
	number uint64 // number of the last packet
	packet packetWriter
	// The memory of these slices is reused in every round.
	changes []tally.Tally
	chosen  []*packetTally
	keys    []tally.Key
	known   []*tally.Tally
	packets [][]byte

	forwardMu sync.Mutex // held while a packet is forwarded
	forwarded []byte     // the packet that is being forwarded
}

// receiveSignals are set when packets are received, and change what the next round does.
type receiveSignals struct {
	hostJoined     atomic.Bool  // a host has sent its first packet; it knows no aliases and no earlier updates
	keysRequested  atomic.Bool  // a host requests all keys
	updatesMissed  atomic.Bool  // a host was silent for some rounds, so this host must request all keys
	roundRequested atomic.Bool  // the next round should start at once
	updateAt       atomic.Int64 // uptime when a packet with tallies was last received
}

// A roundState is the state that is kept from one round to the next.
type roundState struct {
	due           time.Duration // when this round should have started
	startedAt     time.Duration // when the last round started
	uptime        time.Duration // uptime of the ledger when this round read it
	packetSentAt  time.Duration // when a packet was last sent; 0 to send one in the next round
	updateSentAt  time.Duration // when a packet with tallies was last sent
	requestRounds int           // the number of further rounds in which this host requests all keys
	peerCount     int           // number of other live hosts in the last round
	probes        int           // number of packets sent to lost hosts
}

// sendCounts are the figures of a sender; see Stats.
type sendCounts struct {
	sent, sentBytes         atomic.Int64
	forwarded, notForwarded atomic.Int64
	sendErrors, skipped     atomic.Int64
	backlog                 atomic.Int64
}

func newSender(g *Limiter) (*sender, error) {
	s := &sender{gossip: g, out: newOutbox(g.options.Interval, g.randomInt)}
	rate := g.options.Bandwidth * 15 / 16 // the rest is for memberlist's own packets
	s.ownBudget.rate, s.forwardBudget.rate = rate, rate
	return s, errors.Join(s.ownBudget.plan.Set(s.ownBudget.limit(1)), s.forwardBudget.plan.Set(s.forwardBudget.limit(1)))
}

// start starts the rounds.
func (s *sender) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round.startedAt = s.gossip.clock.Elapsed()
	s.schedule()
}

// schedule starts the timer of the next round. Intervals vary by a tenth, so that hosts do not all send at the same
// time.
func (s *sender) schedule() {
	if s.closed {
		return
	}
	interval := s.gossip.options.Interval
	pause := interval*9/10 + time.Duration(s.gossip.randomInt(int(interval/5)+1))
	s.round.due = s.gossip.clock.Elapsed() + pause
	s.timer = s.gossip.clock.AfterFunc(pause, s.runRound)
}

// hurry starts the next round immediately, without waiting for the timer.
func (s *sender) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.timer != nil && s.timer.Stop() {
		s.round.due = s.gossip.clock.Elapsed()
		s.timer = s.gossip.clock.AfterFunc(0, s.runRound)
	}
}

// runRound checks the hosts, sends changes, and schedules the next round.
func (s *sender) runRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := s.gossip.clock.Elapsed()
	late := now - s.round.due
	if s.received.updatesMissed.Swap(false) || late >= s.gossip.missedAfter() {
		s.round.requestRounds = requestRepeats
	}
	if late >= s.gossip.lostAfter() {
		s.gossip.events.notify(Resumed, "", "for "+late.Round(time.Millisecond).String())
	}
	s.gossip.checkHosts(min(now-s.round.startedAt, s.gossip.missedAfter()))
	s.round.startedAt = now
	s.sendUpdates()
	s.gossip.updateClock()
	s.schedule()
}

// sendUpdates sends as much as the bandwidth allows now.
func (s *sender) sendUpdates() {
	others := s.gossip.members.live()
	now := s.gossip.clock.Elapsed()
	s.round.uptime = s.gossip.ledger.Uptime()
	requested := s.received.keysRequested.Swap(false)
	s.resend.requested = s.resend.requested || requested
	if s.received.hostJoined.Swap(false) || requested || len(others) > s.round.peerCount {
		s.out.generation++
		s.resend.needed = true
		s.round.packetSentAt = 0
	}
	if s.round.peerCount == 0 && len(others) > 0 {
		// This host has just joined or was alone. It requests all keys from all hosts, because each may know only some.
		s.round.requestRounds = requestRepeats
	}
	s.round.peerCount = len(others)
	s.probeLost(now)
	if len(others) == 0 {
		s.discardChanges()
		return
	}
	hops, copies, cost := s.spread(len(others))
	size := int(s.ownBudget.available(now, cost)) / cost
	if size < minPacket {
		return
	}
	s.gather(now, size)
	s.chosen = s.out.choose(s.chosen[:0], size, now)
	s.refresh()
	s.counts.backlog.Store(int64(s.out.waiting()))
	if s.counts.skipped.Swap(s.out.skipped) != s.out.skipped {
		s.resend.needed = true // sends the skipped totals when there is bandwidth again
	}
	s.writePackets(hops)
	if len(s.packets) == 0 && (s.round.packetSentAt == 0 || s.round.requestRounds > 0 ||
		now-s.round.packetSentAt >= s.maxSilence(len(others), now)) {
		s.startPacket(hops) // an empty packet, which shows that this host is live, and has its clock
		s.finishPacket()
	}
	if len(s.packets) > 0 {
		s.round.packetSentAt = max(1, now)
		s.round.requestRounds = max(0, s.round.requestRounds-1)
	}
	if len(s.chosen) > 0 {
		s.round.updateSentAt = now
	}
	s.send(others, copies, cost, now)
}

// probeLost sends an empty packet to lost hosts, so that both sides notice when they can reach each other again.
func (s *sender) probeLost(now time.Duration) {
	lost := s.gossip.members.lost()
	if len(lost) == 0 {
		return
	}
	s.packets = s.packets[:0]
	s.startPacket(0)
	s.finishPacket()
	n := min(len(lost), maxProbed)
	for range n {
		s.round.probes++
		s.sendPacket(lost[s.round.probes%len(lost)], s.packets[0])
	}
	s.ownBudget.spend(now, n*(len(s.packets[0])+packetOverhead))
}

// maxProbed is the maximum number of lost hosts to which a round sends a packet. If there are more lost hosts, the next
// round continues with the others.
const maxProbed = 16

// discardChanges removes changes from the ledger while there is no other host, so that the ledger can drop drained
// keys. Nothing is lost, because a host that joins gets the keys with the highest levels; see Limiter.state.
func (s *sender) discardChanges() {
	s.changes = s.gossip.ledger.Changes(s.changes[:0], maxOutbox)
}

// talliesOf returns the current tallies of keys, and the uptime. It waits for the end of a round. Otherwise packets
// that are sent later could have smaller totals.
func (s *sender) talliesOf(keys []tally.Key) (uptime time.Duration, tallies []tally.Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uptime = s.gossip.ledger.Uptime()
	return uptime, s.gossip.ledger.Tallies(nil, keys)
}

// spread returns how a packet reaches all other hosts. hops is the number of times that the packet may be forwarded,
// and copies the number of hosts to which each host sends it. cost is the number of bytes that all hosts together send
// for each byte of the packet.
func (s *sender) spread(others int) (hops uint8, copies, cost int) {
	o := &s.gossip.options
	if others < o.MeshSize {
		return 0, others, others
	}
	copies = min(o.Fanout, others)
	for reach := copies; reach < others && hops < 16; reach *= copies {
		hops++
	}
	return hops + 1, copies, copies * (others + 1)
}

// gather adds changes from the ledger to the outbox: all changes of hot keys, and about as many changes of other keys
// as fit into size bytes.
func (s *sender) gather(now time.Duration, size int) {
	ledger := s.gossip.ledger
	s.known = s.out.hotTallies(s.known[:0], now)
	s.changes = ledger.Updates(s.changes[:0], s.known)
	for i := range s.changes {
		s.out.put(&s.changes[i], false, s.round.uptime, now)
	}
	want := min(size/wholeSize+1-len(s.out.unsent[coldQueue]), s.out.room())
	if want <= 0 {
		return
	}
	s.changes = ledger.Changes(s.changes[:0], want)
	for i := range s.changes {
		s.out.put(&s.changes[i], s.changes[i].SendLevel, s.round.uptime, now)
	}
	if spare := size/wholeSize/2 - s.out.waiting(); spare > 0 {
		s.resend.startIfDue(s.gossip, now)
		s.resend.queueNext(s.gossip, spare, now)
	}
}

// refresh reads chosen tallies again if they were read in an earlier round.
func (s *sender) refresh() {
	s.keys = s.keys[:0]
	for _, t := range s.chosen {
		if t.readAt != s.round.uptime {
			s.keys = append(s.keys, t.tally.Key)
		}
	}
	s.changes = s.gossip.ledger.Tallies(s.changes[:0], s.keys)
	for i := range s.changes {
		s.out.refresh(&s.changes[i], s.round.uptime)
	}
}

// writePackets writes the chosen tallies into packets.
func (s *sender) writePackets(hops uint8) {
	s.packets = s.packets[:0]
	for rest := s.chosen; len(rest) > 0; {
		s.startPacket(hops)
		n := 0
		for n < len(rest) && s.packet.add(rest[n]) {
			n++
		}
		if n == 0 {
			return // impossible, because one tally always fits
		}
		rest = rest[n:]
		s.finishPacket()
	}
}

func (s *sender) startPacket(hops uint8) {
	kind := updatePacket
	if s.round.requestRounds > 0 {
		kind = requestPacket
	}
	s.startPacketKind(hops, kind)
}

func (s *sender) startPacketKind(hops uint8, kind packetKind) {
	s.number++
	s.packet.start(&header{
		hops: hops, kind: kind, fleet: s.gossip.fleet, from: s.gossip.self,
		number: s.number, uptime: s.round.uptime, wallClock: s.gossip.ledger.WallClock(s.round.uptime),
	})
}

// finishPacket appends the packet to s.packets. It reuses the memory of packets of earlier rounds.
func (s *sender) finishPacket() {
	var b []byte
	if n := len(s.packets); n < cap(s.packets) {
		b = s.packets[: n+1 : cap(s.packets)][n]
	}
	s.packets = append(s.packets, s.packet.finish(b[:0]))
}

// send sends each packet to as many hosts as copies says. If these are not all hosts, they forward the packet.
func (s *sender) send(others []string, copies, cost int, now time.Duration) {
	for _, packet := range s.packets {
		// Start with a random host, so that no host gets the packets of all other hosts at the same time.
		from := s.gossip.randomInt(len(others))
		for i := range copies {
			s.sendPacket(others[(from+i)%len(others)], packet)
		}
		s.ownBudget.spend(now, cost*(len(packet)+packetOverhead))
	}
}

func (s *sender) sendPacket(to string, packet []byte) {
	mesh := s.gossip.currentMesh()
	if mesh == nil {
		return // the mesh is being created
	}
	s.counts.sent.Add(1)
	s.counts.sentBytes.Add(int64(len(packet) + packetOverhead))
	if err := mesh.Send(to, packet); err != nil {
		s.counts.sendErrors.Add(1) // the packet counts as lost
	}
}

// forward forwards a packet that was not received before, if it has hops left and there is bandwidth.
func (s *sender) forward(packet []byte, origin string) {
	hops := packet[hopsAt]
	others := s.gossip.members.live()
	if hops == 0 || len(others) < s.gossip.options.MeshSize {
		return
	}
	s.forwardMu.Lock()
	defer s.forwardMu.Unlock()
	now := s.gossip.clock.Elapsed()
	if s.forwardBudget.available(now, s.gossip.options.Fanout) <= 0 {
		s.counts.notForwarded.Add(1)
		return
	}
	s.forwarded = append(s.forwarded[:0], packet...)
	s.forwarded[hopsAt] = hops - 1
	from := s.gossip.randomInt(len(others))
	copies := 0
	for i := 0; i < len(others) && copies < s.gossip.options.Fanout; i++ {
		if to := others[(from+i)%len(others)]; to != origin {
			s.sendPacket(to, s.forwarded)
			copies++
		}
	}
	s.counts.forwarded.Add(1)
	s.forwardBudget.spend(now, copies*(len(packet)+packetOverhead))
}

// close sends the remaining updates and a leave packet, and stops the rounds.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.sendUpdates()
	others := s.gossip.members.live()
	if len(others) == 0 {
		return
	}
	now := s.gossip.clock.Elapsed()
	hops, _, _ := s.spread(len(others))
	s.packets = s.packets[:0]
	for range leaveRepeats {
		s.startPacketKind(hops, leavePacket)
		s.packets = append(s.packets, slices.Clone(s.packet.head))
	}
	s.send(others, len(others), len(others), now)
}

// leaveRepeats is the number of times that a leave packet is sent. If all of them are lost, other hosts consider this
// host lost.
const leaveRepeats = 3
