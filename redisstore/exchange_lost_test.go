package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
)

// A server can lose all notes, or, if a replica takes its place, the latest.
func TestBoardKnowsInWhichPlacesNotesWereLost(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	a := newReader(t, open(t, server.URL(), Options{Secret: testSecret}), "a", 1)
	at := int(noteKeyOf("x")[0]) % places
	expect := func(when string, want uint64) {
		t.Helper()
		if got := a.Lost(); got != want {
			t.Errorf("%s: lost in %b, want %b", when, got, want)
		}
	}
	do := func(words ...string) {
		t.Helper()
		if _, err := server.Do(words...); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		a.mustLeave(heard{}, "x", "1")
	}
	expect("at first", 0)
	do("HSET", a.errand(at).keys[0], "v", "2")
	a.mustLeave(heard{}, "x", "1")
	expect("when the latest notes are gone", 1<<at)
	a.mustLeave(heard{}, "x", "1")
	expect("after that", 0)
	do("FLUSHALL")
	a.mustLeave(heard{}, "x", "1")
	expect("when all are gone", 1<<at)
	a.mustLeave(heard{}, "x", "1")
	expect("after that", 0)
}

// A node that reports a window of next year, as its date is wrong, does not silence the others of its region.
func TestARegionBookIsNotBoundToAWindowFarAhead(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	book, err := s.RegionBook("")
	if err != nil {
		t.Fatal(err)
	}
	report := func(node string, window time.Time, start, total int64) (speaks bool, sum int64) {
		t.Helper()
		missed, err := book.Report(t.Context(), node, []string{noteKeyOf("x")}, []int64{start}, []int64{window.UnixMicro()}, []int64{total}, []int64{0},
			[]time.Duration{5 * time.Minute}, time.Microsecond, func(_ int, s bool, _, total, _ int64) { speaks, sum = s, total })
		if err != nil || len(missed) > 0 {
			t.Fatalf("missed %v, %v", missed, err)
		}
		return speaks, sum
	}
	now := time.Now().Truncate(time.Minute)
	report("wrong", now.Add(365*24*time.Hour), 1, 7)
	if speaks, sum := report("right", now, 1, 3); !speaks || sum != 3 {
		t.Errorf("after a window of next year: speaks %t, of %d; want true, 3", speaks, sum)
	}
	report("early", now.Add(time.Minute), 1, 2)
	if speaks, sum := report("late", now, 1, 5); speaks || sum != 2 {
		t.Errorf("of a window that is over: speaks %t, of %d; want false, 2", speaks, sum)
	}
}
