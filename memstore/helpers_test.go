package memstore

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A fakeClock is a clock that tests set. The zero fakeClock is at 2026-01-01.
type fakeClock struct{ offset atomic.Int64 } // µs

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *fakeClock) Now() time.Time {
	return epoch.Add(time.Duration(c.offset.Load()) * time.Microsecond)
}

func (c *fakeClock) advance(d time.Duration) { c.offset.Add(d.Microseconds()) }

func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, headgate.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func bind(t testing.TB, s *Store, limit string) *headgate.Bound {
	t.Helper()
	b, err := s.Bind(headgate.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func take(t testing.TB, s *Store, key, limit string, cost int64) headgate.Decision {
	t.Helper()
	decide := s.Take
	if cost == 0 {
		decide = s.Peek
	}
	d, err := decide(context.Background(), headgate.Check{Key: key, Limit: headgate.MustParseLimit(limit), Cost: cost})
	if err != nil {
		t.Fatalf("take %d of %s for %s: %v", cost, limit, key, err)
	}
	return d
}

func key(i int) string { return "client-" + strconv.Itoa(i) }

// everyAlgorithm has one limit of every algorithm, and those of the compact kinds once more too large to be compact.
var everyAlgorithm = append(countingAlgorithms("5/h"),
	"5/h", "5/h gcra", "5/h leaky-bucket", "5/d fixed-window", "5/d fixed-window staggered",
	"5/h sliding-window", "5/h sliding-buckets 6", "5/h sliding-log", "5 concurrent ttl 10h",
	"5/h burst 300000", "300000/30d fixed-window",
)

// countingAlgorithms returns a limit for each of the algorithms that declare what they promise.
func countingAlgorithms(rate string) (limits []string) {
	for _, a := range headgate.Algorithms() {
		if _, ok := algorithm.PromiseOf(headgate.Limit{Algorithm: a, Count: 1, Period: time.Second}); ok {
			limits = append(limits, rate+" "+a.String())
		}
	}
	return limits
}
