package memstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racing"
)

// While the table grows under them, goroutines take from every key more often than its limit allows. A split that lost
// an update would admit more, one that charged the wrong key less.
func TestGrowthLosesNothing(t *testing.T) {
	for _, limit := range []string{"5/h", "5/h gcra", "5/d fixed-window", "5/d fixed-window staggered", "5/h sliding-window"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			const keys, goroutines, each, want = 40_000 / racing.Slower, 8, 2, 5
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			b := bind(t, s, limit)
			admitted := make([]atomic.Int32, keys)
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 1))
					for range each {
						for _, i := range r.Perm(keys) {
							if b.Allow(key(i)) {
								admitted[i].Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			for i := range admitted {
				if got := admitted[i].Load(); got != want {
					t.Fatalf("%s: admitted %d of %d, want %d", key(i), got, goroutines*each, want)
				}
			}
			if got := s.Stats().Keys; got != keys {
				t.Errorf("Stats().Keys = %d, want %d", got, keys)
			}
		})
	}
}

// Sweeping, merging and growing again all go on while goroutines decide.
func TestSweepingLosesNothing(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	const steady = 2_000 / racing.Slower
	long, short := bind(t, s, "50/d"), bind(t, s, "1000/s")
	admitted := make([]atomic.Int32, steady)
	stop := make(chan struct{})
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			for n := range s.shards {
				select {
				case <-stop:
					return
				default:
					now := s.now()
					s.sweepShard(uint8(n), now, now)
				}
			}
		}
	})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for round := range 20 {
				for _, i := range r.Perm(steady) {
					if long.Allow(key(i)) {
						admitted[i].Add(1)
					}
					short.Allow(key(steady + (g*20+round)*steady + i)) // comes once, dies, and is swept
				}
				clock.advance(3 * time.Second)
			}
		})
	}
	wg.Wait()
	close(stop)
	sweeper.Wait()
	for i := range admitted {
		if got := admitted[i].Load(); got != 50 {
			t.Fatalf("%s: admitted %d of 80, want 50", key(i), got)
		}
	}
}

func TestTableShrinksWhenKeysDie(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, "10/s")
	const keys = 600_000 / racing.Slower
	for i := range keys {
		b.Allow(key(i))
	}
	full := s.Stats()
	if full.Keys != keys {
		t.Fatalf("Keys = %d, want %d", full.Keys, keys)
	}
	clock.advance(time.Minute)
	s.sweepAll()
	s.sweepAll()
	got := s.Stats()
	if got.Keys != 0 {
		t.Errorf("after all have died: Keys = %d, want 0", got.Keys)
	}
	if racing.Slower == 1 && got.Bytes > full.Bytes/2 {
		t.Errorf("after all have died: %d bytes, want less than half of %d", got.Bytes, full.Bytes)
	}
	b.Allow("one more") // the table still works
	if got := s.Stats().Keys; got != 1 {
		t.Errorf("Keys = %d, want 1", got)
	}
}

// sweepAll completes a lap now.
func (s *Store) sweepAll() {
	now := s.now()
	for n := range s.shards {
		s.sweepShard(uint8(n), now, now)
	}
	s.completeSweep(now)
}
