package fleet

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// A decision may read the date just before it is set back, and count just after that.
func TestADecisionThatWasUnderWayWhenTheDateWasSetBackLocksNobodyOut(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		clock, all := hosts(t, 1, false, nil)
		h := all[0]
		if known {
			h.take("k", tenIn10s, 1)
		}
		h.setAhead(365 * 24 * time.Hour)
		then := h.now()
		h.setAhead(0)
		if known {
			h.take("k", tenIn10s, 1) // goes by the new date already
		}
		check := headgate.Check{Key: "k", Limit: tenIn10s, Cost: 10}
		a, _, err := h.ask(&check)
		if err != nil {
			t.Fatal(err)
		}
		var d headgate.Decision
		sh := h.shardOf(&a.key)
		sh.mu.Lock()
		_, err = h.Ledger.take(sh, &a, then, &d)
		sh.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		h.take("k", tenIn10s, 10)
		clock.Advance(20 * time.Second)
		if got := h.take("k", tenIn10s, 20); got != 10 {
			t.Errorf("known %t: %d passed in a later window, want 10", known, got)
		}
	}
}

// A suspended clock is one of a machine that was, as a whole: it stands still meanwhile.
type suspended struct {
	*gossipWorld
	since time.Duration // 0 if it is not now
	lost  time.Duration
}

func (s *suspended) Now() time.Duration {
	if s.since != 0 {
		return s.since - s.lost
	}
	return s.gossipWorld.Now() - s.lost
}

// Two of three machines are suspended for a minute: the third finds out, and goes by the same date as they do.
func TestGossipHostsAgreeOnADateAfterMostWereSuspended(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 71)
	w.delay = 10 * time.Millisecond
	var clocks []*suspended
	var fleet []*worldHost
	for _, name := range []string{"a", "b", "c"} {
		c := &suspended{gossipWorld: w}
		clocks = append(clocks, c)
		fleet = append(fleet, w.host(name, func(lo *LedgerOptions, _ *GossipOptions) { lo.Clock = c }))
	}
	apart := func() time.Duration {
		var least, most time.Duration
		for i, h := range fleet {
			date := h.ledger.date(h.ledger.Uptime()) + h.Stats().Ahead
			if i == 0 {
				least, most = date, date
			}
			least, most = min(least, date), max(most, date)
		}
		return most - least
	}
	const delays = 50 * time.Millisecond
	w.run(10 * time.Second)
	if got := apart(); got > delays {
		t.Fatalf("dates are %v apart at first, want no more than %v", got, delays)
	}
	w.severs = func(string, string) bool { return true }
	clocks[0].since, clocks[1].since = w.now, w.now
	w.run(time.Minute)
	for _, c := range clocks[:2] {
		c.since, c.lost = 0, time.Minute
	}
	w.severs = func(string, string) bool { return false }
	w.run(3 * dateSpan)
	if got := apart(); got > delays {
		t.Errorf("dates are %v apart after two of three stood still, want no more than %v", got, delays)
	}
}

// A host that was stopped hears what others said a minute ago, all at once. It does not take that for their dates.
func TestOldPacketsThatComeAllAtOnceAreNoDates(t *testing.T) {
	t.Parallel()
	var c correspondent
	now := time.Hour
	say := func(late time.Duration) { c.dated(now-late, now, now) }
	for range 200 {
		say(time.Millisecond)
		now += time.Second
	}
	now += 10 * time.Minute
	for i := range 500 {
		say(10*time.Minute - time.Duration(i)*50*time.Millisecond)
	}
	if c.ahead < -200*time.Millisecond {
		t.Errorf("the host seems to be %v ahead, want about 0", c.ahead)
	}
}

// A date that is off by about what is told of is told of once.
func TestADateAtTheBorderOfWhatIsToldIsToldOnce(t *testing.T) {
	t.Parallel()
	told, changes := false, 0
	for i := range 100 {
		off := MaxDateOff + time.Duration(i%3-1)*10*time.Millisecond
		if is := isOff(off, told); is != told {
			told = is
			changes++
		}
	}
	if changes != 1 || !told {
		t.Errorf("told %d times, and it is off: %t; want once, and true", changes, told)
	}
	if isOff(MaxDateOff/2, true) {
		t.Error("half of it is off, want right again")
	}
}
