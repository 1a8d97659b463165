package gossip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func keyOf(n int) (k tally.Key) {
	copy(k[:], fmt.Sprintf("%016d", n))
	return k
}

// An outboxTest gives an outbox rounds.
type outboxTest struct {
	*outbox
	now time.Duration
}

func newOutboxTest() *outboxTest {
	random := rand.New(rand.NewPCG(1, 1))
	return &outboxTest{outbox: newOutbox(50*time.Millisecond, random.IntN), now: time.Hour}
}

func (o *outboxTest) change(n int, total int64) {
	o.put(&tally.Tally{Key: keyOf(n), Limit: headgate.PerSecond(100), Start: time.Minute, Total: total, Level: 1}, false, o.now, o.now)
}

// round returns how many of each kind are told.
func (o *outboxTest) round(size int) (wholes, shorts int, told []*packetTally) {
	o.now += o.interval
	told = o.choose(nil, size, o.now)
	for _, t := range told {
		if t.short {
			shorts++
		} else {
			wholes++
		}
	}
	return wholes, shorts, told
}

func TestOutboxTellsAChangeSixTimesAndForgetsIt(t *testing.T) {
	o := newOutboxTest()
	o.change(1, 5)
	tells := 0
	for range 300 {
		wholes, shorts, _ := o.round(10_000)
		tells += wholes + shorts
	}
	if tells != 1+len(resendAfter) {
		t.Errorf("told %d times, want %d", tells, 1+len(resendAfter))
	}
	if len(o.keys) != 0 || len(o.finished) != 0 || o.waiting() != 0 {
		t.Errorf("%d keys, %d kept, %d waiting, want none", len(o.keys), len(o.finished), o.waiting())
	}
	o.change(1, 5)
	if o.waiting() != 1 {
		t.Errorf("%d waiting after it was forgotten and came again, want 1", o.waiting())
	}
}

func TestOutboxTellsHotKeysFirstAndBriefly(t *testing.T) {
	o := newOutboxTest()
	cold := 1000
	var hot int64
	for range 100 {
		hot += 5
		for n := range 10 {
			o.change(n, hot) // 100 units a second each
		}
		for range 50 { // more than fits
			cold++
			o.change(cold, 1)
		}
		o.round(600)
	}
	if len(o.hot) != 10 {
		t.Fatalf("%d keys are hot, want 10", len(o.hot))
	}
	hot += 5
	for n := range 10 {
		o.change(n, hot)
	}
	_, shorts, list := o.round(600)
	if shorts != 10 {
		t.Errorf("%d told by nickname, want the 10 that are hot", shorts)
	}
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a.short && (!b.short || a.alias >= b.alias) {
			t.Fatalf("nickname %d before %d, want whole ones first and nicknames in order", a.alias, b.alias)
		}
	}
	if o.skipped == 0 {
		t.Error("all was told again, though it did not fit")
	}
	for range 300 {
		o.round(100_000)
	}
	o.hotTallies(nil, o.now)
	for range 100 {
		o.round(100_000)
	}
	if len(o.hot) != 0 || len(o.keys) != 0 {
		t.Errorf("%d hot, %d in all after a long silence, want none", len(o.hot), len(o.keys))
	}
}

func TestOutboxIsBoundedAndKeepsTheHottest(t *testing.T) {
	o := newOutboxTest()
	for total := int64(1); total < 8; total++ {
		for n := range maxHot + 1000 {
			if n < 200 {
				o.change(n, 100*total)
			} else if o.room() > 0 {
				o.change(n, 2*total)
			}
		}
		o.round(50_000)
		if len(o.hot) > maxHot || len(o.keys) > maxOutbox {
			t.Fatalf("%d hot and %d in all, want at most %d and %d", len(o.hot), len(o.keys), maxHot, maxOutbox)
		}
	}
	for n := range 200 {
		if e := o.keys[keyOf(n)]; e == nil || e.hot < 0 {
			t.Fatalf("key %d of the hottest 200 is not among the hot", n)
		}
	}
	for i, e := range o.hot {
		if e.hot != i {
			t.Fatalf("the hot key at %d thinks that it is at %d", i, e.hot)
		}
	}
}

// A nickname is never used for something else, and not after others may have forgotten it.
func TestOutboxNicknamesMeanOneThing(t *testing.T) {
	o := newOutboxTest()
	peer := &peerState{}
	limits := limitTable{}
	random := rand.New(rand.NewPCG(2, 2))
	totals := map[tally.Key]int64{}
	understood := 0
	for round := range 200 {
		for range 100 {
			n := random.IntN(3000)
			if random.IntN(4) > 0 {
				n = random.IntN(100)
			}
			totals[keyOf(n)] += 3
			tally := tally.Tally{Key: keyOf(n), Limit: headgate.PerSecond(100), Start: time.Duration(round/25) * time.Second, Total: totals[keyOf(n)]}
			o.put(&tally, false, o.now, o.now)
		}
		if round%50 == 49 {
			o.generation++
		}
		_, _, list := o.round(20_000)
		if random.IntN(3) == 0 {
			continue // lost
		}
		for _, sent := range list {
			got := packetTally{alias: sent.alias, short: sent.short}
			if !sent.short {
				got.tally = sent.tally
				if got.alias != 0 {
					peer.addAlias(&got, limits.get(&got.tally.Limit))
				}
				continue
			}
			if !peer.resolveAlias(&got) {
				continue
			}
			understood++
			if got.tally.Key != sent.tally.Key || got.tally.Start != sent.tally.Start || got.tally.Limit != sent.tally.Limit {
				t.Fatalf("nickname %d was taken for %+v, want %+v", sent.alias, got.tally, sent.tally)
			}
		}
	}
	if understood < 1000 {
		t.Errorf("%d nicknames were understood, want some thousands", understood)
	}
}

func TestDuplicatePacketsAreRecognized(t *testing.T) {
	peer := &peerState{peer: fleet.Peer{Name: "a", Incarnation: 1}}
	seen := map[uint64]bool{}
	random := rand.New(rand.NewPCG(3, 3))
	newest := uint64(0)
	for range 5000 {
		n := newest + random.Uint64N(40)
		if back := random.Uint64N(60); n > back {
			n -= back
		}
		if n == 0 {
			continue
		}
		if got, want := peer.isDuplicate(n), seen[n]; got != want {
			t.Fatalf("packet %d, the newest is %d: seen before is %v, want %v", n, newest, got, want)
		}
		seen[n] = true
		newest = max(newest, n)
	}
	if !peer.isDuplicate(newest - numberWindow) {
		t.Error("a packet from long ago was taken for new")
	}
	if peer.isDuplicate(newest+10*numberWindow) || !peer.isDuplicate(newest+10*numberWindow) || peer.isDuplicate(newest+10*numberWindow-1) {
		t.Error("after a leap, packets are not told apart")
	}
	peer.setIncarnation(2)
	if peer.isDuplicate(5) || !peer.isFormer(1) || peer.isFormer(2) {
		t.Error("want the second incarnation to start again, and the first to be over")
	}
	peer.setIncarnation(2)
	if !peer.isDuplicate(5) {
		t.Error("the second incarnation started once more")
	}
	peer.setIncarnation(1)
	if peer.isDuplicate(5) || peer.isFormer(1) || !peer.isFormer(2) {
		t.Error("want the first incarnation to start again after it came back, and the second to be over")
	}
}

func TestPeerStatesAreBounded(t *testing.T) {
	states := peerStates{}
	for i := range 3 * maxPeers {
		states.get(fmt.Append(nil, "host-", i), 1, time.Duration(i))
		states.get([]byte("steady"), 1, time.Duration(i))
		if len(states) > maxPeers {
			t.Fatalf("%d hosts, want at most %d", len(states), maxPeers)
		}
	}
	if states["steady"] == nil {
		t.Error("who was heard all the time was forgotten")
	}
}

func TestEventsThatOutsidersCauseAreReportedOnceInTenSeconds(t *testing.T) {
	w := newGossipWorld(t, 1)
	var mu sync.Mutex
	var events []Event
	h := newNotifier(clock.NewStopwatch(&worldClock{world: w}), func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	for range 100 {
		h.notify(BadPacket, "", "")
	}
	h.notify(PeerJoined, "a", "")
	h.notify(PeerJoined, "b", "")
	w.now += eventInterval
	h.notify(BadPacket, "", "")
	h.close()
	h.notify(BadPacket, "", "") // nobody is there to hear it
	want := []Event{{Kind: BadPacket}, {Kind: PeerJoined, Host: "a"}, {Kind: PeerJoined, Host: "b"}, {Kind: BadPacket, Suppressed: 99}}
	if !slices.Equal(events, want) {
		t.Errorf("got %v, want %v", events, want)
	}
}

func TestGossipCountsWhatMakesNoSense(t *testing.T) {
	w := newGossipWorld(t, 1)
	hosts := w.fleet(2, func(lo *fleet.LedgerOptions, _ *Options) { lo.OnRefused = func(fleet.Peer, string) {} })
	a, to := hosts[0], hosts[0].mesh.to
	to.Receive(nil)
	to.Receive([]byte("rubbish"))
	to.Merge([]byte{200, 200, 1})
	if got := a.Stats().Malformed; got != 3 {
		t.Errorf("%d packets made no sense, want 3", got)
	}
	foreign := header{fleet: 1, from: fleet.Peer{Name: "x", Incarnation: 1}, number: 1}
	to.Receive(append(foreign.append(nil), 0, 0, 0))
	if got := a.Stats().OtherSecret; got != 1 {
		t.Errorf("%d packets are foreign, want 1", got)
	}
	liar := header{fleet: a.fleet, from: fleet.Peer{Name: "liar", Incarnation: 1}, number: 1, uptime: time.Minute}
	for _, total := range []int64{5, 3, headgate.MaxCount} {
		var l packetWriter
		l.start(&liar)
		l.add(&packetTally{tally: tally.Tally{Key: keyOf(1), Limit: headgate.PerSecond(5), Start: time.Second, Total: total}})
		to.Receive(l.finish(nil))
		liar.number++
		liar.uptime += time.Second
		w.run(10 * time.Millisecond)
	}
	if got := a.Stats().Ledger.Refused; got != 2 {
		t.Errorf("%d tallies were refused, want one that falls and one that is absurd", got)
	}
	if _, err := a.Take(context.Background(), headgate.Check{Key: "honest", Limit: headgate.PerSecond(5), Cost: 1}); err != nil {
		t.Error(err)
	}
}

// A host of another version is named, so that somebody can see to it.
func TestGossipTellsWhichHostIsOfAnotherVersion(t *testing.T) {
	w := newGossipWorld(t, 2)
	events := make(chan Event, 8)
	a := w.host("a", func(_ *fleet.LedgerOptions, o *Options) { o.OnEvent = func(e Event) { events <- e } })
	head := header{fleet: a.fleet, from: fleet.Peer{Name: "old", Incarnation: 1}, number: 1}
	packet := append(head.append(nil), 0, 0, 0)
	packet[0] = packetVersion - 1
	a.mesh.to.Receive(packet)
	select {
	case e := <-events:
		if e.Kind != OtherVersion || e.Host != "old" || e.Detail == "" {
			t.Errorf("got %+v, want %v of old, and which versions", e, OtherVersion)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
	if got := a.Stats().Malformed; got != 1 {
		t.Errorf("%d packets were not understood, want 1", got)
	}
}
