package memstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

func pack2(time, units int64) uint64 { return pack(algorithm.Pair{Time: time, Units: units}) }

func medianAndMax(d []time.Duration) (median, longest time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)-1]
}

func TestMemoryStaysWithinItsLimit(t *testing.T) {
	for _, limit := range everyAlgorithm {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
			b := bind(t, s, limit)
			const perGoroutine = 150_000
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					for i := range perGoroutine {
						if _, err := b.Take(key(g*perGoroutine+i), 1); err != nil && !errors.Is(err, headgate.ErrFull) {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			got := s.Stats()
			if got.Bytes > got.MaxBytes || got.Bytes != s.countBytes() {
				t.Errorf("Bytes = %d, want %d as counted, and at most %d", got.Bytes, s.countBytes(), got.MaxBytes)
			}
			if got.Evictions == 0 {
				t.Error("Evictions = 0, want some: the keys do not fit")
			}
			if got.Keys+got.Evictions+got.Refusals != 4*perGoroutine {
				t.Errorf("%d keys + %d evictions + %d refusals, want %d in all", got.Keys, got.Evictions, got.Refusals, 4*perGoroutine)
			}
		})
	}
}

// countBytes counts what Stats().Bytes says anew.
func (s *Store) countBytes() int64 {
	var sum int64
	for n := range s.shards {
		if d := s.dirs[n].Load(); d != nil {
			var last *segment
			for _, g := range d.segments {
				if g != last {
					sum += g.bytes()
				}
				last = g
			}
			if len(d.bases) > 1 {
				sum += d.bytes() - newDirectory(0, maxSlots).bytes()
			}
		}
		r := &s.shards[n].wide
		sum += int64(len(r.index)) * indexBytes
		for size := range r.classes {
			for _, page := range r.classes[size].pages {
				sum += int64(len(page)) * 8
			}
		}
	}
	return sum
}

func TestMemoryPressureSparesDeniedKeys(t *testing.T) {
	for _, limit := range []string{"2/h", "2/d fixed-window", "2/h sliding-window", "2/h sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
			b := bind(t, s, limit)
			const abusers = 500
			for i := range abusers {
				name := "abuser-" + key(i)
				for range 3 {
					b.Allow(name)
				}
			}
			for i := range 500_000 {
				b.Allow(key(i))
			}
			if s.Stats().Evictions == 0 {
				t.Fatal("no evictions: the test puts no pressure on memory")
			}
			for i := range abusers {
				if name := "abuser-" + key(i); b.Allow(name) {
					t.Fatalf("%s was forgotten and passes again", name)
				}
			}
		})
	}
}

func TestMemoryFullOfDeniedKeysRefusesNewOnes(t *testing.T) {
	for _, limit := range []string{"1/h", "1/h sliding-window"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
			b := bind(t, s, limit)
			refused := -1
			for i := range 1_000_000 {
				_, err := b.Take(key(i), 1)
				if errors.Is(err, headgate.ErrFull) {
					refused = i
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if d, err := b.Take(key(i), 1); err != nil || d.Allowed {
					t.Fatalf("second take of %s: allowed %v, err %v; want a denial", key(i), d.Allowed, err)
				}
			}
			if refused < 0 {
				t.Fatal("nothing was refused")
			}
			if got := s.Stats().Refusals; got != 1 {
				t.Errorf("Refusals = %d, want 1", got)
			}
			if !b.Allow(key(refused)) {
				t.Error("Allow denies a key that the store has no room for, want it to let it pass")
			}
			checks := []headgate.Check{
				{Key: key(0), Limit: b.Limit(), Cost: 1},
				{Key: key(refused), Limit: b.Limit(), Cost: 1},
			}
			if _, err := s.TakeAll(context.Background(), checks, nil); !errors.Is(err, headgate.ErrFull) {
				t.Errorf("TakeAll with a key that has no room: %v, want ErrFull", err)
			}
			clock.advance(2 * time.Hour)
			if d, err := b.Take(key(refused), 1); err != nil || !d.Allowed {
				t.Errorf("once the others have died: %v, %v; want it allowed", d, err)
			}
		})
	}
}

func TestMemoryOfRecordsIsGivenBack(t *testing.T) {
	for _, limit := range []string{"5/s sliding-window", "5/s sliding-buckets 5", "50/s sliding-log", "5 concurrent ttl 1s", "300000/s burst 300000"} {
		t.Run(limit, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			for i := range 5_000 {
				for range 5 {
					take(t, s, key(i), limit, 1)
					clock.advance(time.Microsecond)
				}
			}
			clock.advance(10 * time.Second)
			s.sweepAll()
			if got := s.Stats(); got.Keys != 0 || got.Bytes != 0 {
				t.Errorf("after all have died: %d keys in %d bytes, want none", got.Keys, got.Bytes)
			}
		})
	}
}

func TestMemoryPerKey(t *testing.T) {
	s := newStore(t, Options{})
	b := bind(t, s, "1000/h")
	next, least, most := 0, 1e9, 0.0
	for _, size := range []int{1_000_000, 1_200_000, 1_400_000, 1_600_000, 1_800_000, 2_000_000} {
		for ; next < size; next++ {
			b.Allow(key(next))
		}
		got := s.Stats()
		each := float64(got.Bytes) / float64(got.Keys)
		t.Logf("%d keys: %.1f bytes a key", got.Keys, each)
		least, most = min(least, each), max(most, each)
	}
	if most > 40 || least > 28 {
		t.Errorf("%.1f to %.1f bytes a key, want at most 40, and 28 at best", least, most)
	}
}

func TestPauseOfACollectionIsShort(t *testing.T) {
	s := newStore(t, Options{})
	b := bind(t, s, "1000/h")
	for i := range 1_000_000 {
		b.Allow(key(i))
	}
	runtime.GC()
	var took []time.Duration
	for range 5 {
		start := time.Now()
		runtime.GC()
		took = append(took, time.Since(start))
	}
	median, _ := medianAndMax(took)
	t.Logf("a full collection beside a million keys: %s", median)
	if median > 20*time.Millisecond {
		t.Errorf("a full collection takes %s, want at most 20ms: something has pointers", median)
	}
	runtime.KeepAlive(s)
}
