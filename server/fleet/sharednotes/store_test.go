package sharednotes

import (
	"slices"
	"testing"
	"time"
)

// arg is the argument of a key: the version up to which its notes were read, how long to keep it in ms, and a note.
func arg(since, keep byte, text string) string {
	return string([]byte{0, 0, 0, 0, 0, since, 0, 0, 0, 0, 0, keep}) + text
}

func TestNotesExpireByTheClockOfTheServer(t *testing.T) {
	s, start := New("-r"), time.UnixMilli(1_700_000_000_000)
	run := func(after time.Duration, author, key, argument string) []string {
		reply, _ := s.Run(nil, []string{"group", key}, []string{author, "f", "e", "e-r", argument}, start.Add(after))
		return reply
	}
	expect := func(when string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	expect("the first note", run(0, "a", "k", arg(0, 100, "1")), "e-r", "1", "0")
	expect("its age", run(40*time.Millisecond, "b", "k", arg(0, 100, "")), "e-r", "2", "0", "1", "a", "40", "1")
	expect("a clock that was set back", run(-time.Hour, "b", "k", arg(0, 100, "")), "e-r", "3", "0", "1", "a", "0", "1")
	expect("a note that a peer keeps for a shorter time", run(90*time.Millisecond, "b", "k", arg(0, 50, "")), "e-r", "4", "0")
	run(100*time.Millisecond, "a", "k", arg(0, 100, "2"))
	s.Promote("-n")
	expect("another server", run(110*time.Millisecond, "b", "k", arg(5, 100, "")), "e-n", "6", "0", "1", "a", "10", "2")
	s.Expire(start.Add(150 * time.Millisecond))
	if got := s.Len(); got != 1 {
		t.Errorf("%d keys, want 1", got)
	}
	expect("after the time", run(201*time.Millisecond, "b", "k", arg(0, 100, "")), "e-n", "7", "0")
	if got := s.Len(); got != 0 {
		t.Errorf("%d keys after their time, want 0", got)
	}
	expect("a group without calls", run(time.Minute, "b", "k", arg(0, 100, "")), "e-n", "1", "0")
}
