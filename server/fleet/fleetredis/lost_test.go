package fleetredis

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
)

// A server can lose all notes, or, if a replica takes its place, the latest.
func TestBoardKnowsInWhichPlacesNotesWereLost(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a := newNode(t, s, "a", 1)
	at := int(keyOf("x")[0]) % fleet.KeyGroups
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
	do("HSET", a.groupKeys[at], "v", "2")
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
	_, s := openStandalone(t)
	store, err := NewRegionStore(s, "")
	if err != nil {
		t.Fatal(err)
	}
	report := func(node string, window time.Time, start, total int64) (speaks bool, sum int64) {
		t.Helper()
		missed, err := store.Report(t.Context(), node, time.Microsecond, []fleet.NodeRecord{{
			Key: keyOf("x"), Start: start, Window: window.UnixMicro(), Total: total, Learned: true, Keep: 5 * time.Minute,
		}}, func(_ int, r fleet.RegionRecord) { speaks, sum = r.IsSender, r.Total })
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
	_, s := openStandalone(t)
	store, err := NewRegionStore(s, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		start, total, sentAt int64
		want                 fleet.Growth
	}{
		{1000, 1 << 52, 1001, fleet.Growth{Units: 5000, First: true, TooLarge: true}},
		{1000, 1 << 52, 1001, fleet.Growth{TooLarge: true}},
		{1000, 5005, 1002, fleet.Growth{Units: 5}},
		{1000, 5005, 1002, fleet.Growth{}},
		{1000, 1 << 52, 1003, fleet.Growth{Units: 100, TooLarge: true}},
		{1000, 1 << 53, 1004, fleet.Growth{TooLarge: true}},
		{1000, 5105, 1005, fleet.Growth{}},
		{1000, 5106, 1006, fleet.Growth{Units: 1}},
		{1000, 5000, 1006, fleet.Growth{}}, // which was on its way for longer
		{1000, 5000, 1007, fleet.Growth{Fell: true}},
		{2000, 40, 2001, fleet.Growth{Units: 40}},
		{1000, 5107, 1008, fleet.Growth{}}, // that record has ended
		{3000, 1 << 52, 3001, fleet.Growth{Units: 5000, TooLarge: true}},
	} {
		var got fleet.Growth
		missed, err := store.Settle(t.Context(), []fleet.RemoteTotal{{
			Key: keyOf("x"), Region: "there", Start: step.start, Total: step.total, SentAt: step.sentAt,
			MaxTotal: 5000, MaxGrowth: 100, Keep: time.Minute,
		}}, func(_ int, g fleet.Growth) { got = g })
		if err != nil || len(missed) > 0 {
			t.Fatalf("missed %v, %v", missed, err)
		}
		if got != step.want {
			t.Errorf("a total of %d since %d, sent at %d: got %+v, want %+v", step.total, step.start, step.sentAt, got, step.want)
		}
	}
}

// A server that comes back with what it last saved, or a replica that takes its place, may have taken calls of others
// before a node comes again: the versions say nothing then, but the server is not the one that it was.
func TestBoardKnowsThatNotesWereLostThoughOthersHaveCalledSince(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 1)
	at := int(keyOf("x")[0]) % fleet.KeyGroups
	const beside = "8" // a key in the same place
	if got := int(keyOf(beside)[0]) % fleet.KeyGroups; got != at {
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
func TestShortLivedNoteDoesNotShortenALongLivedOne(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a := newNode(t, s, "a", 1)
	leave := func(name string, keep time.Duration) {
		t.Helper()
		_, err := a.Exchange.Exchange(t.Context(), []fleet.Note{{Key: keyOf(name), Text: "1", Keep: keep}}, func(int, fleet.PeerNote) {})
		if err != nil {
			t.Fatal(err)
		}
	}
	ttl := func() time.Duration {
		t.Helper()
		at := int(keyOf("x")[0]) % fleet.KeyGroups
		ms, err := server.Do("PTTL", a.groupKeys[at])
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
