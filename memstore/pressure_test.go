package memstore

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
)

// Making room for one key of a TakeAll must not drop another: idle tenants meet ever new clients.
func TestTakeAllKeepsItsKeysWhileItMakesRoom(t *testing.T) {
	for _, limit := range []string{"10/s", "10/s sliding-window"} {
		clock := &fakeClock{}
		s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
		r := rand.New(rand.NewPCG(1, 4))
		var dst []headgate.Decision
		for range 200_000 / racing.Slower {
			clock.advance(time.Millisecond)
			checks := []headgate.Check{
				{Key: "tenant-" + strconv.Itoa(r.IntN(20_000)), Limit: headgate.MustParseLimit(limit), Cost: 1},
				{Key: key(r.IntN(2_000_000)), Limit: headgate.PerHour(1000), Cost: 1},
			}
			got, err := s.TakeAll(context.Background(), checks, dst[:0])
			if err != nil || len(got) != 2 {
				t.Fatalf("%s: %v, %v; want two decisions", limit, got, err)
			}
			dst = got
		}
		if got := s.heldEntries(); got != 0 {
			t.Errorf("%s: %d entries are still held", limit, got)
		}
	}
}

// heldEntries counts the entries that nobody can decide on.
func (s *Store) heldEntries() (n int) {
	for i := range s.dirs {
		if d := s.dirs[i].Load(); d != nil {
			for _, g := range d.segments {
				for j := range g.slots {
					tag := atomic.LoadUint64(&g.slots[j].tag)
					if tag != 0 && tag>>layoutBits != tombstone && atomic.LoadUint64(&g.slots[j].state)&heldBit != 0 {
						n++
					}
				}
			}
		}
	}
	return n
}

// Hot keys are taken from while others are added around them: every unit admitted is consumed once, however often the
// entry moves.
func TestMovedEntryIsChargedOnce(t *testing.T) {
	const hot, most = 64, 90_000
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, strconv.Itoa(most)+"/d")
	var admitted [hot]atomic.Int64
	stop := make(chan struct{})
	var takers sync.WaitGroup
	for g := range 4 {
		takers.Go(func() {
			for i := g; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if b.Allow(key(i % hot)) {
					admitted[i%hot].Add(1)
				}
			}
		})
	}
	for i := range 400_000 / racing.Slower {
		b.Allow("other-" + key(i))
	}
	close(stop)
	takers.Wait()
	for i := range admitted {
		d, err := s.Peek(t.Context(), headgate.Check{Key: key(i), Limit: b.Limit()})
		if want := most - admitted[i].Load(); err != nil || d.Remaining != want {
			t.Errorf("%s: %d remain (%v) after %d were admitted, want %d", key(i), d.Remaining, err, admitted[i].Load(), want)
		}
	}
}

func TestLoweredLimitIsRemembered(t *testing.T) {
	for _, limits := range [][2]string{
		{"100/s", "10/h"},
		{"100/s fixed-window", "10/h fixed-window"},
		{"100/s sliding-window", "10/h sliding-window"},
		{"100/s sliding-log", "10/h sliding-log"},
		{"5000000/s", "10/h"},
	} {
		clock := &fakeClock{}
		s := newStore(t, Options{Now: clock.Now})
		take(t, s, "alice", limits[0], 100)
		denied := take(t, s, "alice", limits[1], 1)
		if denied.Allowed {
			t.Fatalf("%s lowered to %s: %+v, want a denial", limits[0], limits[1], denied)
		}
		clock.advance(20 * time.Second)
		s.sweepAll()
		if d := take(t, s, "alice", limits[1], 1); d.Allowed {
			t.Errorf("%s lowered to %s: allowed after 20 s, want it denied for %s", limits[0], limits[1], denied.RetryAfter)
		}
	}
}

func TestFullMemoryStillServesKnownKeysAndOtherKinds(t *testing.T) {
	for _, flood := range []string{"10/h sliding-window", "10/h burst 300000", "10/h"} {
		t.Run(flood, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
			b := bind(t, s, flood)
			for i := range 500_000 / racing.Slower {
				if _, err := b.Take(context.Background(), key(i), 1); err != nil {
					t.Fatalf("%s: %v, want another key to make room", key(i), err)
				}
				if i%1000 == 0 {
					if _, err := b.Take(context.Background(), key(i), 1); err != nil {
						t.Fatalf("%s, once more: %v", key(i), err)
					}
				}
			}
			for _, limit := range []string{"10/h sliding-window", "10/h sliding-log", "10 concurrent", "10/h sliding-buckets 60", "10/h"} {
				passed := 0
				for range 30 {
					if d := take(t, s, "alice/"+limit, limit, 1); d.Allowed {
						passed++
					}
				}
				if passed != 10 {
					t.Errorf("%s: %d pass, want 10", limit, passed)
				}
			}
			for n := range s.shards {
				s.shards[n].records.checkFree(t)
			}
		})
	}
}

func TestTimeIsKeptWhenNothingIsLeft(t *testing.T) {
	ctx := context.Background()
	for _, limit := range []string{"10/s", "10/s sliding-log"} {
		for _, how := range []string{"give", "reset"} {
			clock := &fakeClock{}
			clock.advance(time.Minute)
			s := newStore(t, Options{Now: clock.Now})
			c := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit(limit), Cost: 10}
			d := take(t, s, "alice", limit, 10)
			err := s.Reset(ctx, headgate.Check{Key: "alice"})
			if how == "give" {
				s = newStore(t, Options{Now: clock.Now})
				d = take(t, s, "alice", limit, 10)
				err = s.Give(ctx, c, d.Receipt)
			}
			if err != nil {
				t.Fatal(err)
			}
			clock.advance(-time.Second)
			if d = take(t, s, "alice", limit, 10); !d.Allowed {
				t.Errorf("%s after a %s: %+v, want it allowed", limit, how, d)
			}
			clock.advance(time.Second)
			if d = take(t, s, "alice", limit, 10); d.Allowed {
				t.Errorf("%s after a %s and a clock that went back: allowed twice, want once", limit, how)
			}
		}
	}
}

func TestGiveUnderMoreBucketsKeepsTheRest(t *testing.T) {
	clock := &fakeClock{}
	clock.advance(40 * time.Second)
	s := newStore(t, Options{Now: clock.Now})
	d := take(t, s, "alice", "100/100s sliding-buckets 2", 100)
	finer := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit("100/100s sliding-buckets 100"), Cost: 1}
	if err := s.Give(context.Background(), finer, d.Receipt); err != nil {
		t.Fatal(err)
	}
	finer.Cost = 50
	if got, err := s.Take(context.Background(), finer); err != nil || got.Allowed {
		t.Errorf("%+v, %v; want a denial: 99 are still consumed", got, err)
	}
}

// At each of its times a daily limit of one admits one, however many ask while the clock jumps on.
func TestClockJumpsWhileDecisionsAreUnderWay(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, "1/d")
	var admitted atomic.Int64
	stop := make(chan struct{})
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if b.Allow("alice") {
					admitted.Add(1)
				}
			}
		})
	}
	jumps := int64(0)
	for deadline := time.Now().Add(2 * time.Second / racing.Slower); time.Now().Before(deadline); jumps++ {
		for before := admitted.Load(); admitted.Load() == before && time.Now().Before(deadline); {
			runtime.Gosched()
		}
		clock.advance(4 * 24 * time.Hour)
	}
	close(stop)
	askers.Wait()
	t.Logf("%d jumps, %d admitted", jumps, admitted.Load())
	if got := admitted.Load(); got > jumps+1 {
		t.Errorf("%d admitted at %d times, want at most one at each", got, jumps+1)
	}
}
