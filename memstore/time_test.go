package memstore

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A word keeps a pair, and when the latest decision was to the grain of its layout.
func TestWordKeepsPair(t *testing.T) {
	s := newStore(t, Options{Now: (&fakeClock{}).Now})
	r := rand.New(rand.NewPCG(1, 1))
	for _, limit := range []string{"10/s", "777/h burst 10", "1000/d", "1001/m burst 1000", "1/us", "1000000/s", "10/d fixed-window"} {
		p, err := s.newPlan(headgate.MustParseLimit(limit))
		if err != nil || !p.compact {
			t.Fatalf("%s: compact %v, %v", limit, p.compact, err)
		}
		_, micros := p.Rate()
		for range 20_000 {
			now := epoch.UnixMicro() + r.Int64N(1<<50)
			want := algorithm.Pair{Time: now - r.Int64N(maxLife), Units: 1 + r.Int64N(p.Capacity())}
			if r.IntN(4) == 0 {
				want.Time = now + r.Int64N(maxAhead)
			}
			if want.Last = want.Time; p.kind == algorithm.KindBucket {
				want.Last += r.Int64N(micros)
			}
			if !p.holds(want) {
				t.Fatalf("%s: %+v does not fit", limit, want)
			}
			got := p.unseal(1234, p.seal(1234, want)|heldBit|deniedBit, now)
			if got.Last < want.Last || got.Last > want.Last+p.grainMask {
				t.Fatalf("%s: %+v is read as %+v, want Last within %d µs", limit, want, got, p.grainMask)
			}
			if again := p.unseal(1234, p.seal(1234, got), now); again != got {
				t.Fatalf("%s: %+v is read as %+v when it is written again", limit, got, again)
			}
			if got.Last = want.Last; got != want {
				t.Fatalf("%s: %+v is read as %+v", limit, want, got)
			}
		}
		if got := p.unseal(1234, p.seal(1234, algorithm.Pair{Time: 12345, Last: 12345}), 1<<50); got != (algorithm.Pair{}) {
			t.Errorf("%s: a pair without units is %+v, want that of a new key", limit, got)
		}
	}
}

func TestLifeCoversTheLimit(t *testing.T) {
	tests := []struct {
		limit string
		fits  bool
	}{
		{"10/s", true},
		{"300/s", true},
		{"1000000/s", true},
		{"5000000/s", false},
		{"190000/s burst 90000", true},
		{"1/us", true},
		{"777/h burst 10", true},
		{"1001/m burst 1000", true},
		{"33333/d burst 100", false}, // a word would not say which of 11,111 units the latest decision found drained
		{"1000/h", true},
		{"1000/d", true},
		{"1000/30d", false},
		{"1/d", true},
		{"1/s burst 90000", true},
		{"100/d fixed-window", true},
		{"100/30d fixed-window", false},
		{"1000000/s fixed-window", true},
		{"5000000/s fixed-window", false},
		{"100/d fixed-window staggered", true},
		{"100/2d fixed-window", true},
		{"100/2d fixed-window staggered", false},
		{"10/s sliding-window", false},
		{"10 concurrent", false},
	}
	s := newStore(t, Options{Now: (&fakeClock{}).Now})
	for _, test := range tests {
		p, err := s.newPlan(headgate.MustParseLimit(test.limit))
		if err != nil {
			t.Fatal(err)
		}
		if p.compact != test.fits {
			t.Errorf("%s is compact: %v, want %v", test.limit, p.compact, test.fits)
		}
		if !p.compact {
			continue
		}
		for _, units := range []int64{1, p.Capacity()} {
			word := p.seal(0, algorithm.Pair{Units: units})
			lives := p.Life(units)
			if p.timeLeft(0, word, 0, lives-1) <= 0 {
				t.Errorf("%s: %d units are forgotten before their %d µs", test.limit, units, lives)
			}
			if p.timeLeft(0, word, 0, 4*lives+4) > 0 {
				t.Errorf("%s: %d units are kept for more than 4 times their %d µs", test.limit, units, lives)
			}
		}
	}
}

// The table keeps times modulo 6 days; no jump of the clock may make an old one look new, nor lock a key out.
func TestClockJumps(t *testing.T) {
	day := 24 * time.Hour
	jumps := []time.Duration{
		time.Hour, 3 * day, 4 * day, 12 * day, 13 * day, 19 * day, 25 * day, 26 * day, 50 * day, 51 * day, 400 * day, 4000 * day,
	}
	for _, limit := range []string{"10/s", "10/s fixed-window", "10/s sliding-window"} {
		for _, jump := range jumps {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			b := bind(t, s, limit)
			take(t, s, "alice", limit, 10)
			clock.advance(jump)
			if d, err := b.Take(context.Background(), "alice", 10); err != nil || !d.Allowed {
				t.Errorf("%s: after a jump of %s ahead: %+v, %v; want it allowed", limit, jump, d, err)
			}
			if b.Allow("alice") {
				t.Errorf("%s: after a jump of %s ahead: admits more than the burst", limit, jump)
			}
			clock.advance(-jump)
			if b.Allow("alice") {
				t.Errorf("%s: after a jump of %s back: admits more than the burst", limit, jump)
			}
			clock.advance(jump + 2*time.Second)
			if d, err := b.Take(context.Background(), "alice", 10); err != nil || !d.Allowed {
				t.Errorf("%s: 2 s after a jump of %s and back: %+v, %v; want it allowed", limit, jump, d, err)
			}
		}
	}
}

// What is dead is dropped before its time could be taken for a later one, however few there are.
func TestDeadEntriesDoNotComeBack(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, "10/s")
	take(t, s, "alice", "10/s", 10)
	for range 60 {
		clock.advance(12 * time.Hour)
		s.sweepAll()
	}
	if d, err := b.Take(context.Background(), "alice", 10); err != nil || !d.Allowed {
		t.Errorf("after 30 days: %+v, %v; want it allowed", d, err)
	}
	if got := s.Stats().Keys; got != 1 {
		t.Errorf("Keys = %d, want 1", got)
	}
}

func TestLimitThatOutgrowsItsWordKeepsWhatWasConsumed(t *testing.T) {
	clock := &fakeClock{}
	for _, limits := range [][2]string{
		{"10/h", "1000000/h"},
		{"10/d fixed-window", "1000000/d fixed-window"},
	} {
		s := newStore(t, Options{Now: clock.Now})
		small, large := limits[0], limits[1]
		take(t, s, "alice", small, 8)
		if d := take(t, s, "alice", large, 1); d.Remaining != 1_000_000-9 {
			t.Errorf("%s raised to %s: %d remain, want %d", small, large, d.Remaining, 1_000_000-9)
		}
		if d := take(t, s, "alice", small, 1); d.Remaining != 0 || !d.Allowed {
			t.Errorf("%s lowered to %s: %+v, want the last unit allowed", large, small, d)
		}
		if d := take(t, s, "alice", small, 1); d.Allowed {
			t.Errorf("%s lowered to %s: %+v, want a denial", large, small, d)
		}
		if got := s.Stats(); got.Keys > 2 {
			t.Errorf("%d keys, want the one and at most a place to be swept", got.Keys)
		}
	}
}

func TestLifeIsRaisedWithTheLimit(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	take(t, s, "alice", "10/s", 1)
	take(t, s, "alice", "10/h", 9)
	clock.advance(time.Minute) // by the first limit it would be dead
	s.sweepAll()
	if d := take(t, s, "alice", "10/h", 1); d.Allowed {
		t.Errorf("%+v, want a denial: what was consumed was forgotten", d)
	}
}

// A sweep that began before the clock jumped does not take what was consumed since then for what is long dead.
func TestASweepFromBeforeAJumpForgetsNothing(t *testing.T) {
	day := 24 * time.Hour
	for _, limit := range []string{"10/h", "10/d fixed-window", "10/h sliding-window"} {
		for _, jump := range []time.Duration{day, 4 * day, 5 * day, 20 * day, 30 * day} {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			before := s.now()
			clock.advance(jump)
			take(t, s, "alice", limit, 10)
			for n := range s.shards {
				s.sweepShard(uint8(n), before, before)
			}
			if d := take(t, s, "alice", limit, 1); d.Allowed {
				t.Errorf("%s, a jump of %s: %+v, want a denial", limit, jump, d)
			}
		}
	}
}

// Times before 1970 are refused at once: no key has been seen then, and none ever would be forgotten.
func TestAClockBefore1970IsRefused(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMicro(-1)} {
		if s, err := New(Options{Now: func() time.Time { return at }}); err == nil {
			t.Errorf("a clock at %s: got a store, want an error", at)
			_ = s.Close()
		}
	}
	s := newStore(t, Options{Now: func() time.Time { return time.UnixMicro(0) }})
	if d := take(t, s, "alice", "5/s", 1); !d.Allowed {
		t.Errorf("a clock at 1970: %+v, want it allowed", d)
	}
}
