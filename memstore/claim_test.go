package memstore

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// checksOf returns a check of one unit for each key.
func checksOf(limit string, keys ...string) []headgate.Check {
	checks := make([]headgate.Check, len(keys))
	for i, k := range keys {
		checks[i] = headgate.Check{Key: k, Limit: headgate.MustParseLimit(limit), Cost: 1}
	}
	return checks
}

// takeAll is TakeAll for tests.
func takeAll(t testing.TB, s *Store, checks []headgate.Check) []headgate.Decision {
	t.Helper()
	ds, err := s.TakeAll(context.Background(), checks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// Keys that are there are taken from while others hold the locks of all shards.
func TestTakeAllOfKnownKeysWaitsForNoLock(t *testing.T) {
	s := newStore(t, Options{})
	checks := checksOf("5/h", "alice", "bob", "carol")
	takeAll(t, s, checks) // adds them, which needs locks
	for n := range s.shards {
		s.shards[n].mu.Lock()
	}
	taken := make(chan []headgate.Decision, 1)
	go func() {
		ds, _ := s.TakeAll(context.Background(), checks, nil)
		taken <- ds
	}()
	var got []headgate.Decision
	select {
	case got = <-taken:
	case <-time.After(20 * time.Second):
		t.Error("it waits for a lock, want none to be needed")
	}
	for n := range s.shards {
		s.shards[n].mu.Unlock()
	}
	for i, d := range got {
		if !d.Allowed || d.Remaining != 3 {
			t.Errorf("check %d: %+v, want it allowed with 3 remaining", i, d)
		}
	}
}

// Whatever the order in which keys are claimed, and whatever else takes from them, moves them or looks at them
// meanwhile: what is taken is taken from all keys of a call, nobody sees one of them without the other, nobody is
// denied what is there, and no more passes than the limit.
func TestClaimsTakeAllOrNoneAmongOthers(t *testing.T) {
	const most, pairs, goroutines = 2_000, 8, 8
	limits := []struct{ first, second string }{
		{strconv.Itoa(most) + "/d", strconv.Itoa(most) + "/d gcra"},
		{strconv.Itoa(most) + "/d", strconv.Itoa(most) + "/d sliding-window"},
	}
	for _, limit := range limits {
		t.Run(limit.second, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			both := func(pair int, cost int64) []headgate.Check {
				return []headgate.Check{
					{Key: "a" + strconv.Itoa(pair), Limit: headgate.MustParseLimit(limit.first), Cost: cost},
					{Key: "b" + strconv.Itoa(pair), Limit: headgate.MustParseLimit(limit.second), Cost: cost},
				}
			}
			ctx := context.Background()
			var admitted [pairs]atomic.Int64
			var torn, failed atomic.Int64
			stop := make(chan struct{})
			var others, takers sync.WaitGroup
			others.Go(func() { // entries move when their segments grow, and when they are tidied
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := s.Take(ctx, headgate.Check{Key: key(i), Limit: headgate.MustParseLimit("1/s"), Cost: 1}); err != nil {
						failed.Add(1)
					}
					if i%1000 == 0 {
						s.sweepAll()
					}
				}
			})
			others.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					ds, err := s.TakeAll(ctx, both(i%pairs, headgate.MaxCount), nil) // is denied, and reads both at once
					if err != nil || len(ds) != 2 || ds[0].Remaining != ds[1].Remaining {
						torn.Add(1)
					}
				}
			})
			for g := range goroutines {
				takers.Go(func() {
					for i, denied := g, 0; denied < pairs; i++ {
						checks := both(i%pairs, 1)
						if g%2 == 1 {
							checks[0], checks[1] = checks[1], checks[0]
						}
						ds, err := s.TakeAll(ctx, checks, nil)
						switch {
						case err != nil:
							failed.Add(1)
							return
						case headgate.Allowed(ds):
							admitted[i%pairs].Add(1)
							denied = 0
						default:
							denied++
						}
					}
				})
			}
			takers.Wait()
			close(stop)
			others.Wait()
			if torn.Load() != 0 || failed.Load() != 0 {
				t.Errorf("%d looks saw one key without the other, %d calls failed; want none", torn.Load(), failed.Load())
			}
			for pair := range pairs {
				if got := admitted[pair].Load(); got != most {
					t.Errorf("pair %d: %d admitted, want %d", pair, got, most)
				}
				for _, d := range takeAll(t, s, both(pair, headgate.MaxCount)) {
					if d.Remaining != 0 {
						t.Errorf("pair %d: %d remaining, want 0", pair, d.Remaining)
					}
				}
			}
			if got := s.heldEntries(); got != 0 {
				t.Errorf("%d entries are still held", got)
			}
		})
	}
}

// A call that is denied by its last key leaves the others as they were, the more so if they were claimed.
func TestDeniedClaimsArePutBack(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	checks := append(checksOf("5/h", "alice", "bob"), checksOf("2/h", "carol")...)
	for range 2 {
		takeAll(t, s, checks)
	}
	for range 5 {
		ds := takeAll(t, s, checks)
		if !ds[0].Allowed || !ds[1].Allowed || ds[2].Allowed || ds[0].Remaining != 3 || ds[1].Remaining != 3 {
			t.Fatalf("%+v, want the last denied and the others with 3 remaining", ds)
		}
	}
	if got := s.heldEntries(); got != 0 {
		t.Errorf("%d entries are still held", got)
	}
}
