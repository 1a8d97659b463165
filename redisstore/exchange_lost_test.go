package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
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
			[]bool{true}, []time.Duration{5 * time.Minute}, time.Microsecond, func(_ int, s, _ bool, _, total, _ int64) { speaks, sum = s, total })
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

// Units that a region reports are new once, as far as they are possible; impossible ones are reported.
func TestARegionBookSettlesWhatCanBeTrueOnce(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	book, err := s.RegionBook("")
	if err != nil {
		t.Fatal(err)
	}
	type settled struct {
		units               int64
		first, leaped, fell bool
	}
	for _, step := range []struct {
		start, total, said int64
		want               settled
	}{
		{1000, 1 << 52, 1001, settled{units: 5000, first: true, leaped: true}},
		{1000, 1 << 52, 1001, settled{leaped: true}},
		{1000, 5005, 1002, settled{units: 5}},
		{1000, 5005, 1002, settled{}},
		{1000, 1 << 52, 1003, settled{units: 100, leaped: true}},
		{1000, 1 << 53, 1004, settled{leaped: true}},
		{1000, 5105, 1005, settled{}},
		{1000, 5106, 1006, settled{units: 1}},
		{1000, 5000, 1006, settled{}}, // which was on its way for longer
		{1000, 5000, 1007, settled{fell: true}},
		{2000, 40, 2001, settled{units: 40}},
		{1000, 5107, 1008, settled{}}, // that record has ended
		{3000, 1 << 52, 3001, settled{units: 5000, leaped: true}},
	} {
		var got settled
		missed, err := book.Settle(t.Context(), []string{noteKeyOf("x")}, []string{"there"}, []int64{step.start}, []int64{step.total}, []int64{step.said},
			[]int64{5000}, []int64{100}, []time.Duration{time.Minute},
			func(_ int, units int64, first, leaped, fell bool) { got = settled{units, first, leaped, fell} })
		if err != nil || len(missed) > 0 {
			t.Fatalf("missed %v, %v", missed, err)
		}
		if got != step.want {
			t.Errorf("a total of %d since %d, said at %d: got %+v, want %+v", step.total, step.start, step.said, got, step.want)
		}
	}
}

// A server that comes back with what it last saved, or a replica that takes its place, may have taken calls of others
// before a node comes again: the versions say nothing then, but the server is not the one that it was.
func TestBoardKnowsThatNotesWereLostThoughOthersHaveCalledSince(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	a, b := newReader(t, s, "a", 1), newReader(t, s, "b", 1)
	at := int(noteKeyOf("x")[0]) % places
	const beside = "8" // a key in the same place
	if got := int(noteKeyOf(beside)[0]) % places; got != at {
		t.Fatalf("%s is in place %d, want %d", beside, got, at)
	}
	a.mustLeave(heard{}, "x", "1")
	if _, err := server.Do("SAVE"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.mustLeave(heard{}, "x", "2")
	}
	if got := a.Lost(); got != 0 {
		t.Fatalf("lost in %b before anything was", got)
	}
	server.Kill()
	server.Restart()
	await.NoError(t, "the server to be back", func() error {
		_, _, err := b.leave("x", "3")
		return err
	})
	for range 10 {
		if _, _, err := b.leave(beside, "4"); err != nil {
			t.Fatal(err)
		}
	}
	a.mustLeave(heard{"x": {"b=3"}}, "x", "")
	if got := a.Lost(); got != 1<<at {
		t.Errorf("lost in %b, want %b", got, uint64(1)<<at)
	}
	a.mustLeave(heard{}, "x", "2")
	if got := a.Lost(); got != 0 {
		t.Errorf("lost in %b again", got)
	}
	b.mustLeave(heard{"x": {"a=2"}}, "x", "")
}

// What all keys of a place have in common lives as long as the longest of its notes, whichever was left last.
func TestANoteThatIsKeptShortlyDoesNotCutThePlaceOfOneThatIsKeptLong(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	a := newReader(t, open(t, server.URL(), Options{Secret: testSecret}), "a", 1)
	leave := func(name string, keep time.Duration) {
		t.Helper()
		_, err := a.Exchange(t.Context(), []string{noteKeyOf(name)}, []string{"1"}, []time.Duration{keep}, []bool{false}, func(int, string, string, time.Duration) {})
		if err != nil {
			t.Fatal(err)
		}
	}
	ttl := func() time.Duration {
		t.Helper()
		at := int(noteKeyOf("x")[0]) % places
		ms, err := server.Do("PTTL", a.errand(at).keys[0])
		if err != nil {
			t.Fatal(err)
		}
		kept, _ := ms.(int64)
		return time.Duration(kept) * time.Millisecond
	}
	leave("x", time.Hour)
	leave("8", time.Minute)
	if got := ttl(); got <= 30*time.Minute || got > time.Hour {
		t.Errorf("the place is kept for %v, want nearly an hour as its longest note", got)
	}
	leave("x", 2*time.Hour)
	if got := ttl(); got <= time.Hour || got > 2*time.Hour {
		t.Errorf("the place is kept for %v, want nearly two hours", got)
	}
}
