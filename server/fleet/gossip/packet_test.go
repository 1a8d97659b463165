package gossip

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func someTold(random *rand.Rand, nick uint64, short bool) packetTally {
	limits := []headgate.Limit{
		headgate.PerSecond(100),
		{Algorithm: headgate.GCRA, Count: 5, Period: time.Minute, Burst: 1 << 20},
		{Algorithm: headgate.FixedWindow, Count: 1, Period: time.Hour, Staggered: true},
		{Algorithm: headgate.SlidingWindow, Count: 7, Period: time.Second},
		{Algorithm: headgate.TokenBucket, Count: 7, Period: time.Second, Burst: 20},
	}
	t := packetTally{alias: nick, short: short}
	t.tally.Total = random.Int64N(1 << uint(random.IntN(50)+1))
	t.tally.Level = random.Int64N(1 << uint(random.IntN(20)+1))
	if short {
		return t
	}
	for i := range t.tally.Key {
		t.tally.Key[i] = byte(random.Uint32())
	}
	t.tally.Limit = limits[random.IntN(len(limits))]
	t.tally.Start = time.Duration(random.Int64N(1<<40)) * time.Microsecond
	if random.IntN(2) == 0 {
		t.tally.Window = random.Int64N(1 << 40)
		t.tally.Offset = random.Int64N(1 << 20)
	}
	t.tally.Reset = random.IntN(4) == 0
	if hasWindows(&t.tally.Limit) {
		switch random.IntN(3) {
		case 0:
			t.tally.Previous, t.tally.AllPrevious = random.Int64N(100), random.Int64N(maxEarlier)
		case 1:
			t.tally.Previous, t.tally.Carried = random.Int64N(maxEarlier), 1+random.Int64N(100)
		}
	}
	return t
}

func somePacket(random *rand.Rand) (header, []packetTally, []byte) {
	h := header{
		hops: 3, fleet: random.Uint64(), from: fleet.Peer{Name: "some host", Incarnation: random.Uint64()},
		number: random.Uint64N(1 << 40), uptime: time.Duration(random.Int64N(1<<40)) * time.Microsecond,
	}
	var l packetWriter
	l.start(&h)
	var tallies []packetTally
	for nick, wholes := uint64(0), random.IntN(60); ; wholes-- {
		t := someTold(random, 0, false)
		if wholes <= 0 {
			nick += random.Uint64N(300) + 1
			t = someTold(random, nick, true)
		} else if random.IntN(2) == 0 {
			t.alias = random.Uint64N(1 << 30)
		}
		if !l.add(&t) {
			break
		}
		tallies = append(tallies, t)
	}
	return h, tallies, l.finish(nil)
}

func TestPacketsAreReadAsTheyWereWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		wantHead, want, packet := somePacket(random)
		if len(packet) > maxPacket {
			t.Fatalf("packet of %d bytes, want at most %d", len(packet), maxPacket)
		}
		r := packetReader{rest: packet}
		head, name, err := r.header()
		if err != nil {
			t.Fatal(err)
		}
		head.from.Name = string(name)
		if head != wantHead {
			t.Fatalf("got header %+v, want %+v", head, wantHead)
		}
		got, _, err := r.tallies(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

// How much a tally takes decides how many keys fit the bandwidth.
func TestTalliesAreSmall(t *testing.T) {
	size := func(add func(l *packetWriter, n int) bool) float64 {
		var l packetWriter
		h := header{from: fleet.Peer{Name: "host-1"}, number: 1 << 20, uptime: 24 * time.Hour}
		l.start(&h)
		n := 0
		for add(&l, n) {
			n++
		}
		return float64(maxPacket) / float64(n)
	}
	whole := size(func(l *packetWriter, n int) bool {
		return l.add(&packetTally{alias: uint64(n) + 1000, tally: tally.Tally{Limit: headgate.PerSecond(100), Start: time.Hour, Total: 100_000, Level: 90}})
	})
	short := size(func(l *packetWriter, n int) bool {
		return l.add(&packetTally{alias: uint64(n+1) * 3, short: true, tally: tally.Tally{Total: 100_000, Level: 90}})
	})
	if whole > wholeSize || short > shortSize {
		t.Errorf("tallies take %.1f bytes whole and %.1f short, want at most %d and %d", whole, short, wholeSize, shortSize)
	}
}

func TestAPacketThatIsCutOrChangedIsRefusedOrStaysWithinBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	_, _, packet := somePacket(random)
	read := func(p []byte) error {
		r := packetReader{rest: p}
		if _, _, err := r.header(); err != nil {
			return err
		}
		_, _, err := r.tallies(nil, nil)
		return err
	}
	for n := range packet {
		if err := read(packet[:n]); err == nil {
			t.Errorf("a packet cut to %d of %d bytes was read", n, len(packet))
		}
	}
	if err := read(append(bytes.Clone(packet), 0)); !errors.Is(err, errMalformed) {
		t.Errorf("a packet with a byte too many: got %v, want %v", err, errMalformed)
	}
	other := bytes.Clone(packet)
	other[0]++
	if err := read(other); !errors.Is(err, errVersion) {
		t.Errorf("a packet of another version: got %v, want %v", err, errVersion)
	}
}

// FuzzHear gives a host packets as anyone may send them who reaches its port.
func FuzzHear(f *testing.F) {
	w := newGossipWorld(nil, 1)
	random := rand.New(rand.NewPCG(5, 6))
	for range 4 {
		_, _, packet := somePacket(random)
		f.Add(packet)
	}
	g, err := New(
		fleet.LedgerOptions{Secret: []byte("a secret of the fuzzer"), Clock: &worldClock{world: w}, MaxKeys: 1024, OnRefused: func(fleet.Peer, string) {}},
		Options{
			Name: "me", Random: rand.NewPCG(1, 1), OnEvent: func(Event) {},
			Mesh: func(to Listener) (Mesh, error) { return &worldMesh{world: w, name: "me", to: to}, nil },
		})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = g.Close() })
	for i := range 3 {
		h := header{fleet: g.fleet, from: fleet.Peer{Name: "peer", Incarnation: 5}, number: uint64(i), uptime: time.Minute, kind: packetKind(i / 2)}
		var l packetWriter
		l.start(&h)
		l.add(&packetTally{alias: 7, tally: tally.Tally{Key: tally.Key{1}, Limit: headgate.PerSecond(5), Start: time.Second, Total: 3, Level: 3}})
		l.add(&packetTally{alias: 7, short: true, tally: tally.Tally{Total: 4, Level: 4}})
		packet := l.finish(nil)
		f.Add(packet)
		f.Add(append([]byte{byte(len(packet)), 1}, packet...))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		w.now += time.Millisecond
		if len(packet) > 11 && packet[0] == packetVersion {
			packet = bytes.Clone(packet) // let it be of the same fleet
			for i := range 8 {
				packet[3+i] = byte(g.fleet >> (8 * i))
			}
		}
		receiver{g}.Receive(packet)
		receiver{g}.Merge(packet)
		if n := len(g.inbox.peers); n > maxPeers {
			t.Errorf("listens to %d hosts, want at most %d", n, maxPeers)
		}
		if n := cap(g.inbox.packetTallies); n > 4*maxTallies {
			t.Errorf("keeps room for %d tallies, want at most %d", n, 4*maxTallies)
		}
		for _, peer := range g.inbox.peers {
			if len(peer.peer.Name) == 0 || len(peer.peer.Name) > fleet.MaxNameBytes {
				t.Errorf("listens to a host %q", peer.peer.Name)
			}
		}
	})
}
