package memstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/memstore/internal/hashindex"
)

func TestMemoryStaysWithinItsLimit(t *testing.T) {
	for _, limit := range everyAlgorithm {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
			s.budget.SetLimit(s.budget.Limit() / racing.Slower)
			b := bind(t, s, limit)
			const perGoroutine = 120_000 / racing.Slower
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					for i := range perGoroutine {
						if _, err := b.Take(context.Background(), key(g*perGoroutine+i), 1); err != nil && !errors.Is(err, headgate.ErrFull) {
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
			for n := range s.shards {
				s.shards[n].records.checkFree(t)
			}
			if got.Keys+got.Evictions+got.Refusals != 4*perGoroutine {
				t.Errorf("%d keys + %d evictions + %d refusals, want %d in all", got.Keys, got.Evictions, got.Refusals, 4*perGoroutine)
			}
		})
	}
}

// countBytes counts what Stats().Bytes says again.
func (s *Store) countBytes() int64 {
	s.segmentPool.mu.Lock()
	sum := int64(len(s.segmentPool.ready)) * largeBytes
	s.segmentPool.mu.Unlock()
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
		r := &s.shards[n].records
		sum += int64(r.index.Len()) * hashindex.BytesPerKey
		for size := range r.classes {
			for _, page := range r.classes[size].pages {
				sum += int64(len(page)) * 8
			}
		}
	}
	return sum
}

// checkFree checks that all records that are not in use are found among the free ones.
func (r *records) checkFree(t *testing.T) {
	t.Helper()
	for size := range r.classes {
		c := &r.classes[size]
		free, before := uint32(0), uint32(0)
		for at := c.free; at != 0; at = uint32(c.record(uint8(size), at-1)[freeNext]) {
			record := c.record(uint8(size), at-1)
			if record[atLength] != freeRecord || uint32(record[freePrevious]) != before {
				t.Fatalf("class %d: record %d follows %d and says %v", size, at-1, int(before)-1, record[:atState])
			}
			before = at
			free++
		}
		if made := c.capacity - uint32(c.holes)*perPage(uint8(size)); free+c.live != made {
			t.Errorf("class %d: %d free and %d live records, want %d in all", size, free, c.live, made)
		}
	}
}

func TestMemoryPressureSparesDeniedKeys(t *testing.T) {
	for _, limit := range []string{"2/h", "2/d fixed-window", "2/h sliding-window", "2/h sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
			s.budget.SetLimit(s.budget.Limit() / racing.Slower)
			b := bind(t, s, limit)
			const abusers = 500 / racing.Slower
			for i := range abusers {
				name := "abuser-" + key(i)
				for range 3 {
					b.Allow(name)
				}
			}
			for i := range 420_000 / racing.Slower {
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
			s.budget.SetLimit(s.budget.Limit() / racing.Slower)
			b := bind(t, s, limit)
			refused := -1
			for i := range 1_000_000 {
				_, err := b.Take(context.Background(), key(i), 1)
				if errors.Is(err, headgate.ErrFull) {
					refused = i
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if d, err := b.Take(context.Background(), key(i), 1); err != nil || d.Allowed {
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
			s.sweepAll()
			if d, err := b.Take(context.Background(), key(refused), 1); err != nil || !d.Allowed {
				t.Errorf("once the others have died: %v, %v; want it allowed", d, err)
			}
		})
	}
}

func TestMemoryOfRecordsIsGivenBack(t *testing.T) {
	for _, limit := range []string{"5/s sliding-window", "5/s sliding-buckets 5", "50/s sliding-log", "5 concurrent ttl 1s", "5000000/s burst 5000000"} {
		t.Run(limit, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			for i := range 5_000 / racing.Slower {
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
