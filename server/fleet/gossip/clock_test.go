//go:build !race

package gossip

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestGossipHostsWithWrongDatesCountInTheSameWindows(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 51)
	w.delay, w.loss = 20*time.Millisecond, 0.2
	events := make(chan Event, 64)
	var all []*worldHost
	for i, ahead := range fleettest.WrongClocks {
		all = append(all, w.host(fmt.Sprint("host ", i), func(lo *fleet.LedgerOptions, o *Options) {
			lo.Clock.(*worldClock).ahead = ahead
			if i == 0 {
				o.OnEvent = func(e Event) { events <- e }
			}
		}))
	}
	w.run(3 * time.Second) // nobody asks for anything, and yet they know of each other's dates
	for i, h := range all {
		s := h.Stats()
		if (s.ClockAhead+fleettest.WrongClocks[i]).Abs() > 50*time.Millisecond || s.ClocksOff != 2 {
			t.Errorf("%s: the date is ahead by %v, %d hosts are off; want %v within delays, and 2", h.name, s.ClockAhead, s.ClocksOff, -fleettest.WrongClocks[i])
		}
	}
	passed := fleettest.WindowCounts{}
	for range 70 * 5 {
		for _, h := range all {
			passed.Add(worldStart.Add(w.now), int(h.take(t, "k", fleettest.TenIn10s, 1)))
		}
		w.run(200 * time.Millisecond)
	}
	passed.Check(t, 9, 16) // with 15 units a second and 0.3 s until most have heard
	off := map[string]bool{}
	for len(off) < 2 {
		select {
		case e := <-events:
			if e.Kind == HostClockOff {
				off[e.Host] = true
			}
		case <-time.After(time.Minute):
			t.Fatalf("hosts that are off: got %v, want host 1 and host 2", off)
		}
	}
	if off["host 0"] {
		t.Errorf("hosts that are off: got %v, want host 1 and host 2", off)
	}
}

// Hosts that know of the same hosts go by the same date, whatever the dates are, and it is one of theirs.
func TestGossipHostsAgreeOnADate(t *testing.T) {
	t.Parallel()
	year := 365 * 24 * time.Hour
	for _, dates := range [][]time.Duration{
		{0, time.Hour},
		{time.Hour, 0},
		{0, 30 * year, 0},
		{-3 * time.Second, 3 * time.Second, 0, year},
		{0, time.Millisecond, 2 * time.Millisecond, -year, year},
	} {
		w := newGossipWorld(t, 61)
		w.delay = 10 * time.Millisecond
		var all []*worldHost
		for i, ahead := range dates {
			all = append(all, w.host(fmt.Sprint("host ", i), func(lo *fleet.LedgerOptions, _ *Options) { lo.Clock.(*worldClock).ahead = ahead }))
		}
		w.run(5 * time.Second)
		sorted := slices.Clone(dates)
		slices.Sort(sorted)
		median := sorted[(len(sorted)-1)/2]
		for i, h := range all {
			if got := dates[i] + h.Stats().ClockAhead; got > median+clockTolerance || got < median-20*time.Millisecond {
				t.Errorf("dates %v: %s goes by %v, want %v, less a delay and what is not heeded", dates, h.name, got, median)
			}
		}
		// One that is lost has no say any more.
		gone := all[0]
		w.severs = func(a, b string) bool { return a == gone.name || b == gone.name }
		w.run(gone.lostAfter() + time.Second)
		rest := slices.Clone(dates[1:])
		slices.Sort(rest)
		median = rest[(len(rest)-1)/2]
		for i, h := range all[1:] {
			if got := dates[i+1] + h.Stats().ClockAhead; got > median+clockTolerance || got < median-20*time.Millisecond {
				t.Errorf("dates %v without the first: %s goes by %v, want %v", dates, h.name, got, median)
			}
		}
	}
}

// A suspendedClock stands still while its machine is suspended.
type suspendedClock struct {
	worldClock
	since time.Duration // when the machine was suspended; 0 if it is not
	lost  time.Duration
}

func (s *suspendedClock) Now() time.Time {
	now := s.world.now
	if s.since != 0 {
		now = s.since
	}
	return worldStart.Add(now - s.lost)
}

func (s *suspendedClock) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// Two of three machines are suspended for a minute: the third finds out, and goes by the same date as they do.
func TestGossipHostsAgreeOnADateAfterMostWereSuspended(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 71)
	w.delay = 10 * time.Millisecond
	var clocks []*suspendedClock
	var all []*worldHost
	for _, name := range []string{"a", "b", "c"} {
		c := &suspendedClock{worldClock: worldClock{world: w}}
		clocks = append(clocks, c)
		all = append(all, w.host(name, func(lo *fleet.LedgerOptions, _ *Options) { lo.Clock = c }))
	}
	apart := func() time.Duration {
		var least, most time.Duration
		for i, h := range all {
			date := h.ledger.WallClock(h.ledger.Uptime()) + h.Stats().ClockAhead
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
	w.run(3 * clockMemory)
	if got := apart(); got > delays {
		t.Errorf("dates are %v apart after two of three stood still, want no more than %v", got, delays)
	}
}

// A host that was stopped hears what others said a minute ago, all at once. It does not take that for their dates.
func TestOldPacketsThatComeAllAtOnceAreNoDates(t *testing.T) {
	t.Parallel()
	var peer peerState
	now := time.Hour
	say := func(late time.Duration) { peer.addClock(now-late, now, now) }
	for range 200 {
		say(time.Millisecond)
		now += time.Second
	}
	now += 10 * time.Minute
	for i := range 500 {
		say(10*time.Minute - time.Duration(i)*50*time.Millisecond)
	}
	if peer.clock.ahead < -200*time.Millisecond {
		t.Errorf("the host seems to be %v ahead, want about 0", peer.clock.ahead)
	}
}
