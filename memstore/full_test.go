package memstore

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// fill fills the memory of a store with keys that are being denied, and returns one that there is no room for.
func fill(t *testing.T, s *Store, limit string) (refused string) {
	t.Helper()
	b := bind(t, s, limit)
	for i := range 1_000_000 {
		d, err := b.Take(context.Background(), key(i), 1)
		for ; err == nil && d.Allowed; d, err = b.Take(context.Background(), key(i), 1) {
		}
		if errors.Is(err, headgate.ErrFull) {
			return key(i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("a million keys do not fill it")
	return ""
}

// newSmallStore returns a store with less memory than one may ask for, which is soon full.
func newSmallStore(t *testing.T) (*Store, *fakeClock) {
	t.Helper()
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now, MaxBytes: minBytes})
	s.budget.SetLimit(1 << 19)
	return s, clock
}

// What is given back needs no room: a place is free again though memory is full.
func TestGiveNeedsNoRoomInFullMemory(t *testing.T) {
	for _, limit := range []string{" concurrent ttl 10h", "/h sliding-log", "/h sliding-buckets 6", "/h sliding-window", "/h"} {
		for count := range int64(4) {
			s, clock := newSmallStore(t)
			limit := strconv.FormatInt(count+1, 10) + limit
			var last headgate.Decision
			for d := take(t, s, "alice", limit, 1); d.Allowed; d = take(t, s, "alice", limit, 1) {
				last = d
				clock.advance(time.Microsecond)
			}
			fill(t, s, "1/h sliding-window")
			check := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit(limit), Cost: 1}
			if err := s.Give(t.Context(), check, last.Receipt); err != nil {
				t.Errorf("%s: %v, want it given back", limit, err)
			}
			if d := take(t, s, "alice", limit, 0); d.Remaining != 1 {
				t.Errorf("%s: %d remaining, want 1", limit, d.Remaining)
			}
		}
	}
}

// A TakeAll that fails since one of its keys has no room leaves the others as they were, those too that it has given a
// larger record: they are swept when they are dead.
func TestTakeAllThatFindsNoRoomLeavesOthersToBeSwept(t *testing.T) {
	for _, limit := range []string{"5/h", "5/h sliding-log", "5 concurrent ttl 10h"} {
		for _, taken := range []int{1, 4} { // a log has a larger record from the fifth on, places from the second
			s, clock := newSmallStore(t)
			for range taken {
				clock.advance(time.Microsecond)
				take(t, s, "alice", limit, 1)
			}
			refused := fill(t, s, "1/h")
			want := take(t, s, "alice", limit, 0)
			checks := append(checksOf(limit, "alice"), checksOf("1/h", refused)...)
			if _, err := s.TakeAll(t.Context(), checks, nil); !errors.Is(err, headgate.ErrFull) {
				t.Fatalf("%s: %v, want ErrFull", limit, err)
			}
			if got := take(t, s, "alice", limit, 0); got != want {
				t.Errorf("%s, %d taken: got %+v, want %+v as before", limit, taken, got, want)
			}
			clock.advance(90 * 24 * time.Hour)
			s.sweepAll()
			s.sweepAll()
			if got := s.Stats().Keys; got != 0 {
				t.Errorf("%s, %d taken: %d keys remembered when all are dead, want 0", limit, taken, got)
			}
		}
	}
}
