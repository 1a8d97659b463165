package gossip

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/ledger"
	"github.com/headgate/headgate/fleet/internal/skew"
)

// packetOverhead is about what a packet takes on the wire beside itself: IP, UDP, memberlist's checksum, label and
// encryption.
const packetOverhead = 80

// leastLetter is what a round waits for rather than send packets that are mostly header.
const leastLetter = 256

// A sender tells the other hosts what this one has consumed, round by round, and passes on what it hears where the fleet
// is too large for everyone to tell everyone.
type sender struct {
	gossip *Limiter
	own    budget // what this host's news costs all hosts
	others budget // what it passes on
	// newcomer is set when a host is heard for the first time. It knows no nicknames, and not what was told before.
	newcomer atomic.Bool
	// asked is set when a host asks to be told all.
	asked atomic.Bool
	// missed is set when this host did not hear another for some rounds. It then asks to be told all.
	missed atomic.Bool
	// hurried is set when the next round should come at once.
	hurried atomic.Bool

	mu      sync.Mutex // held for a round
	closed  bool
	timer   fleet.Timer
	out     *outbox
	number  uint64
	changes []ledger.Tally
	chosen  []*packetTally
	keys    []ledger.Key
	recall  resend
	letter  packetWriter
	packets [][]byte
	due     time.Duration // when this round was to be
	began   time.Duration // when the last one began
	asks    int           // in how many more rounds this host asks to be told all
	seen    int           // how many others there were in the last round
	called  int           // how often a lost host was sent a packet
	uptime  time.Duration // when this round began to look at what there is
	spoke   time.Duration // when a packet was last sent; 0 if there is somebody who has heard none
	told    time.Duration // when one that was not empty was

	heardNews atomic.Int64 // by the clock: when a packet that was not empty last came

	passing sync.Mutex // held for passing on
	relay   []byte

	sent, sentBytes     atomic.Int64
	passed, notPassed   atomic.Int64
	sendErrors, skipped atomic.Int64
	backlog             atomic.Int64
}

func newSender(g *Limiter) (*sender, error) {
	s := &sender{gossip: g, out: newOutbox(g.options.Interval, g.pick)}
	rate := g.options.Bandwidth * 15 / 16 // the rest is for what memberlist has to say itself
	s.own.rate, s.others.rate = rate, rate
	return s, errors.Join(s.own.plan.Set(s.own.limit(1)), s.others.plan.Set(s.others.limit(1)))
}

// start begins the rounds.
func (s *sender) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = s.gossip.clock.Now()
	s.wait()
}

// wait has the next round come, a little earlier or later than the last, so that hosts do not all speak at once.
func (s *sender) wait() {
	if s.closed {
		return
	}
	interval := s.gossip.options.Interval
	pause := interval*9/10 + time.Duration(s.gossip.pick(int(interval/5)+1))
	s.due = s.gossip.clock.Now() + pause
	s.timer = s.gossip.clock.AfterFunc(pause, s.round)
}

// hurry has the next round come at once.
func (s *sender) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.timer != nil && s.timer.Stop() {
		s.due = s.gossip.clock.Now()
		s.timer = s.gossip.clock.AfterFunc(0, s.round)
	}
}

// round tells what has changed.
func (s *sender) round() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	late := s.gossip.clock.Now() - s.due
	if s.missed.Swap(false) || late >= s.gossip.missedAfter() {
		s.asks = timesAsked
	}
	if late >= s.gossip.lostAfter() {
		s.gossip.events.notify(Resumed, "", "for "+late.Round(time.Millisecond).String())
	}
	s.gossip.watch(min(s.due+late-s.began, s.gossip.missedAfter()))
	s.began = s.due + late
	s.tell()
	s.gossip.agree()
	s.wait()
}

// tell sends what the bandwidth allows for now.
func (s *sender) tell() {
	others := s.gossip.members.others()
	now := s.gossip.clock.Now()
	s.uptime = s.gossip.ledger.Uptime()
	asked := s.asked.Swap(false)
	s.recall.asked = s.recall.asked || asked
	if s.newcomer.Swap(false) || asked || len(others) > s.seen {
		s.out.epoch++
		s.recall.wanted = true
		s.spoke = 0
	}
	if s.seen == 0 && len(others) > 0 {
		s.asks = timesAsked // it has just joined, or was alone: nobody it hears from need know all
	}
	s.seen = len(others)
	s.call(now)
	if len(others) == 0 {
		s.listenOnly()
		return
	}
	hops, copies, cost := s.shape(len(others))
	size := int(s.own.left(now, cost)) / cost
	if size < leastLetter {
		return
	}
	s.gather(now, size)
	s.chosen = s.out.choose(s.chosen[:0], size, now)
	s.refresh()
	s.backlog.Store(int64(s.out.waiting()))
	if s.skipped.Swap(s.out.skipped) != s.out.skipped {
		s.recall.wanted = true // when there is room again
	}
	s.write(hops)
	if len(s.packets) == 0 && (s.spoke == 0 || s.asks > 0 || now-s.spoke >= s.quietFor(len(others), now)) {
		s.begin(hops) // there is nothing but the date to tell
		s.seal()
	}
	if len(s.packets) > 0 {
		s.spoke = max(1, now)
		s.asks = max(0, s.asks-1)
	}
	if len(s.chosen) > 0 {
		s.told = now
	}
	s.send(others, copies, cost, now)
}

// call sends an empty packet to hosts that are lost, so that they hear of this one when they can.
func (s *sender) call(now time.Duration) {
	lost := s.gossip.members.missing()
	if len(lost) == 0 {
		return
	}
	s.packets = s.packets[:0]
	s.begin(0)
	s.seal()
	n := min(len(lost), maxCalled)
	for range n {
		s.called++
		s.post(lost[s.called%len(lost)], s.packets[0])
	}
	s.own.spend(now, n*(len(s.packets[0])+packetOverhead))
}

// maxCalled is how many lost hosts are sent a packet in a round. If there are more, they take turns.
const maxCalled = 16

// quietFor is how long a host is silent at most, so that others know its date, that it lives, and that they have missed nothing:
// not at all while keys are in use, and longer in a large fleet, where all that is said goes through everyone.
func (s *sender) quietFor(others int, now time.Duration) time.Duration {
	switch {
	case others >= s.gossip.options.MeshSize:
		return quietInLarge(others)
	case now-max(s.told, time.Duration(s.heardNews.Load())) < ledger.RecentFor:
		return 0
	default:
		return min(skew.AskInterval, s.gossip.options.Probe/2)
	}
}

// quietInLarge is how long a host of a large fleet is silent at most.
func quietInLarge(others int) time.Duration {
	return skew.AskInterval * time.Duration(min(1+others/8, 5))
}

// missedAfter is after how long without a word of a host, or of this host's own, something was missed.
func (g *Limiter) missedAfter() time.Duration { return missedRounds * g.options.Interval }

const (
	missedRounds = 5
	// timesAsked is how often a host asks to be told all: a packet may be lost.
	timesAsked = 3
)

// listenOnly takes changes that nobody is there to hear for told, so that the ledger can forget them in time. Who comes is
// told what there is then.
func (s *sender) listenOnly() {
	s.changes = s.gossip.ledger.Changes(s.changes[:0], maxOutbox)
}

// look returns what there is to say of keys, and since when. It is not done during a round, so that what is said later
// never says less.
func (s *sender) look(keys []ledger.Key) (uptime time.Duration, tallies []ledger.Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uptime = s.gossip.ledger.Uptime()
	return uptime, s.gossip.ledger.Tallies(nil, keys)
}

// shape says how packets spread among so many others: how often one may be passed on, to how many it is sent at once, and
// how many times its size it costs each host, with what it passes on for the others.
func (s *sender) shape(others int) (hops uint8, copies, cost int) {
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

// gather puts changes in the outbox: those of hot keys, and of others about as many as can be told.
func (s *sender) gather(now time.Duration, size int) {
	ledger := s.gossip.ledger
	s.keys = s.out.hotKeys(s.keys[:0], now)
	s.changes = ledger.Tallies(s.changes[:0], s.keys)
	for i := range s.changes {
		s.out.put(&s.changes[i], false, s.uptime, now)
	}
	want := min(size/wholeSize+1-len(s.out.fresh[1]), s.out.room())
	if want <= 0 {
		return
	}
	s.changes = ledger.Changes(s.changes[:0], want)
	for i := range s.changes {
		s.out.put(&s.changes[i], s.changes[i].SendLevel, s.uptime, now)
	}
	if spare := size/wholeSize/2 - s.out.waiting(); spare > 0 {
		s.recall.startIfDue(s.gossip, now)
		s.recall.next(s.gossip, spare, now)
	}
}

// refresh brings what is told again to what it is now.
func (s *sender) refresh() {
	s.keys = s.keys[:0]
	for _, t := range s.chosen {
		if t.again {
			s.keys = append(s.keys, t.tally.Key)
		}
	}
	s.changes = s.gossip.ledger.Tallies(s.changes[:0], s.keys)
	for i := range s.changes {
		s.out.refresh(&s.changes[i])
	}
}

// write makes packets of what was chosen.
func (s *sender) write(hops uint8) {
	s.packets = s.packets[:0]
	for rest := s.chosen; len(rest) > 0; {
		s.begin(hops)
		n := 0
		for n < len(rest) && s.letter.add(rest[n]) {
			n++
		}
		if n == 0 {
			return // cannot be: one tally always fits
		}
		rest = rest[n:]
		s.seal()
	}
}

func (s *sender) begin(hops uint8) {
	kind := news
	if s.asks > 0 {
		kind = asking
	}
	s.beginKind(hops, kind)
}

func (s *sender) beginKind(hops uint8, kind packetKind) {
	s.number++
	s.letter.begin(&header{
		hops: hops, kind: kind, fleet: s.gossip.fleet, from: s.gossip.self,
		number: s.number, uptime: s.uptime, date: s.gossip.ledger.WallClock(s.uptime),
	})
}

// seal appends the letter to the packets, in memory used before if there is any.
func (s *sender) seal() {
	var b []byte
	if n := len(s.packets); n < cap(s.packets) {
		b = s.packets[: n+1 : cap(s.packets)][n]
	}
	s.packets = append(s.packets, s.letter.seal(b[:0]))
}

// send sends the packets to all others, or to some of them that they are passed on from.
func (s *sender) send(others []string, copies, cost int, now time.Duration) {
	for _, packet := range s.packets {
		// Each begins elsewhere, so that no host gets the packets of all others at the same time.
		from := s.gossip.pick(len(others))
		for i := range copies {
			s.post(others[(from+i)%len(others)], packet)
		}
		s.own.spend(now, cost*(len(packet)+packetOverhead))
	}
}

func (s *sender) post(to string, packet []byte) {
	mesh := s.gossip.network()
	if mesh == nil {
		return // it is being made
	}
	s.sent.Add(1)
	s.sentBytes.Add(int64(len(packet) + packetOverhead))
	if err := mesh.Send(to, packet); err != nil {
		s.sendErrors.Add(1) // as good as lost on the way
	}
}

// pass passes a packet on that was new to this host, if it may be and the bandwidth allows.
func (s *sender) pass(packet []byte, origin string) {
	hops := packet[hopsAt]
	others := s.gossip.members.others()
	if hops == 0 || len(others) < s.gossip.options.MeshSize {
		return
	}
	s.passing.Lock()
	defer s.passing.Unlock()
	now := s.gossip.clock.Now()
	if s.others.left(now, s.gossip.options.Fanout) <= 0 {
		s.notPassed.Add(1)
		return
	}
	s.relay = append(s.relay[:0], packet...)
	s.relay[hopsAt] = hops - 1
	from := s.gossip.pick(len(others))
	copies := 0
	for i := 0; i < len(others) && copies < s.gossip.options.Fanout; i++ {
		if to := others[(from+i)%len(others)]; to != origin {
			s.post(to, s.relay)
			copies++
		}
	}
	s.passed.Add(1)
	s.others.spend(now, copies*(len(packet)+packetOverhead))
}

// close tells what is left, says farewell, and ends the rounds.
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
	s.tell()
	others := s.gossip.members.others()
	if len(others) == 0 {
		return
	}
	now := s.gossip.clock.Now()
	hops, _, _ := s.shape(len(others))
	s.packets = s.packets[:0]
	for range farewells {
		s.beginKind(hops, farewell)
		s.packets = append(s.packets, slices.Clone(s.letter.head))
	}
	s.send(others, len(others), len(others), now)
}

// farewells is how often a farewell is said: one that gets lost leaves a host among those that are missed.
const farewells = 3

// A budget is how many bytes may be sent.
type budget struct {
	rate int64

	mu    sync.Mutex
	plan  algorithm.Plan
	spent algorithm.Pair
}

// limit lets a quarter of a second be saved, or two packets to all.
func (b *budget) limit(cost int) headgate.Limit {
	return headgate.Limit{Count: b.rate, Period: time.Second, Burst: max(b.rate/4, int64(cost)*2*(maxPacket+packetOverhead))}
}

// left is how much may be sent now, where a byte costs so much. It is below zero after too much was.
func (b *budget) left(now time.Duration, cost int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if limit := b.limit(cost); limit != b.plan.Limit() {
		_ = b.plan.Set(limit) // is good for every cost, and would leave the plan as it was
	}
	return b.plan.DecidePair(b.spent, now.Microseconds(), 0).Remaining
}

func (b *budget) spend(now time.Duration, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent, _ = b.plan.ChargePair(b.spent, now.Microseconds(), int64(n))
}
