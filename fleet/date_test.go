package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

var tenIn10s = headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: 10 * time.Second}

// wrongDates are those of three hosts, by how much they are ahead.
var wrongDates = []time.Duration{0, 7 * time.Second, -7 * time.Second}

// perWindow counts what passes in windows of 10 s by the right date.
type perWindow map[int64]int

func (p perWindow) add(date time.Time, n int) { p[date.Unix()/10] += n }

// check looks at all windows but the first and the last, in which not all was offered.
func (p perWindow) check(t *testing.T, least, most int) {
	t.Helper()
	var windows []int64
	for w := range p {
		windows = append(windows, w)
	}
	slices.Sort(windows)
	if len(windows) < 5 {
		t.Fatalf("%d windows, want at least 5: %v", len(windows), p)
	}
	for _, w := range windows[1 : len(windows)-1] {
		if p[w] < least || p[w] > most {
			t.Errorf("window %d: %d passed, want %d to %d", w, p[w], least, most)
		}
	}
}

func (p perWindow) most() (most int) {
	for _, n := range p {
		most = max(most, n)
	}
	return most
}

// Three hosts, of which one is 7 s ahead and one 7 s behind, let pass in every window what one would, and what slips through
// before they know of each other: less than two units arrive in that time.
func TestAsyncHostsWithWrongDatesCountInTheSameWindows(t *testing.T) {
	run := func(t *testing.T, dated bool) (passed perWindow, events []AsyncEvent) {
		passed = perWindow{}
		synctest.Test(t, func(t *testing.T) {
			s := newSlate(time.Millisecond)
			var all []*Async
			for i, ahead := range wrongDates {
				o := AsyncOptions{
					Name: fmt.Sprint("node ", i), Rand: rand.New(rand.NewPCG(7, uint64(i))).Int64N,
					OnEvent: func(e AsyncEvent) { events = append(events, e) },
				}
				var x Exchange = pencil{s, o.Author()}
				if !dated {
					x = undated{x}
				}
				clock := System()
				a, err := NewAsync(LedgerOptions{Secret: testSecret, Clock: clock, Epoch: time.Now().Add(ahead - clock.Now())}, x, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := a.AskDate(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got, want := a.Stats().Ahead, -ahead; dated && (got-want).Abs() > time.Millisecond {
					t.Errorf("%s: the date is ahead by %v, want %v within the delay", o.Name, got, want)
				}
				all = append(all, a)
			}
			defer closeAsync(t, all...)
			for start := time.Now(); time.Since(start) < 70*time.Second; time.Sleep(200 * time.Millisecond) {
				for _, a := range all {
					passed.add(time.Now(), takeAsync(t, a, "k", tenIn10s, 1))
				}
			}
		})
		return passed, events
	}
	passed, events := run(t, true)
	passed.check(t, 7, 13) // three more in one window are three less in the next
	var offs []time.Duration
	for _, e := range events {
		if e.Kind == DateOff {
			offs = append(offs, e.Off.Round(100*time.Millisecond))
		}
	}
	if want := []time.Duration{7 * time.Second, -7 * time.Second}; !slices.Equal(offs, want) {
		t.Errorf("hosts that are off: got %v, want %v", offs, want)
	}
	if passed, _ := run(t, false); passed.most() <= 13 {
		t.Errorf("without a common date no more than %d passed in a window: this proves nothing", passed.most())
	}
}

func TestGossipHostsWithWrongDatesCountInTheSameWindows(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 51)
	w.delay, w.loss = 20*time.Millisecond, 0.2
	epoch := time.Unix(1_700_000_000, 0)
	events := make(chan GossipEvent, 64)
	var fleet []*worldHost
	for i, ahead := range wrongDates {
		fleet = append(fleet, w.host(fmt.Sprint("host ", i), func(lo *LedgerOptions, o *GossipOptions) {
			lo.Epoch = epoch.Add(ahead)
			if i == 0 {
				o.OnEvent = func(e GossipEvent) { events <- e }
			}
		}))
	}
	w.run(3 * time.Second) // nobody asks for anything, and yet they know of each other's dates
	for i, h := range fleet {
		s := h.Stats()
		if (s.Ahead+wrongDates[i]).Abs() > 50*time.Millisecond || s.DatesOff != 2 {
			t.Errorf("%s: the date is ahead by %v, %d hosts are off; want %v within delays, and 2", h.name, s.Ahead, s.DatesOff, -wrongDates[i])
		}
	}
	passed := perWindow{}
	for range 70 * 5 {
		for _, h := range fleet {
			passed.add(epoch.Add(w.now), int(h.take(t, "k", tenIn10s, 1)))
		}
		w.run(200 * time.Millisecond)
	}
	passed.check(t, 9, 16) // with 15 units a second and 0.3 s until most have heard
	off := map[string]bool{}
	for len(off) < 2 {
		select {
		case e := <-events:
			if e.Kind == HostDateOff {
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
		var fleet []*worldHost
		for i, ahead := range dates {
			fleet = append(fleet, w.host(fmt.Sprint("host ", i), func(lo *LedgerOptions, _ *GossipOptions) { lo.Epoch = lo.Epoch.Add(ahead) }))
		}
		w.run(5 * time.Second)
		sorted := slices.Clone(dates)
		slices.Sort(sorted)
		median := sorted[(len(sorted)-1)/2]
		for i, h := range fleet {
			if got := dates[i] + h.Stats().Ahead; got > median+dateStir || got < median-20*time.Millisecond {
				t.Errorf("dates %v: %s goes by %v, want %v, less a delay and what is not heeded", dates, h.name, got, median)
			}
		}
		// One that is lost has no say any more.
		gone := fleet[0]
		w.severs = func(a, b string) bool { return a == gone.name || b == gone.name }
		w.run(gone.lostAfter() + time.Second)
		rest := slices.Clone(dates[1:])
		slices.Sort(rest)
		median = rest[(len(rest)-1)/2]
		for i, h := range fleet[1:] {
			if got := dates[i+1] + h.Stats().Ahead; got > median+dateStir || got < median-20*time.Millisecond {
				t.Errorf("dates %v without the first: %s goes by %v, want %v", dates, h.name, got, median)
			}
		}
	}
}

// A date that is set back has a window last longer, and none counted twice; one that is set forward begins the next.
func TestNoWindowIsCountedTwiceWhenTheDateMoves(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []headgate.Algorithm{headgate.FixedWindow, headgate.SlidingWindow} {
		limit := headgate.Limit{Algorithm: algorithm, Count: 10, Period: 10 * time.Second}
		clock, all := hosts(t, 1, false, nil)
		h := all[0]
		clock.Advance(8 * time.Second)
		h.take("k", limit, 10)
		clock.Advance(4 * time.Second) // 12 s
		passed := h.take("k", limit, 10)
		h.setAhead(-7 * time.Second) // 5 s: what was counted at 8 s was not in another window
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 0 || got+passed > 10 {
			t.Errorf("%v: %d and then %d passed when the date was set back, want no more than 10 in all", algorithm, passed, got)
		}
		clock.Advance(14*time.Second + 999*time.Millisecond) // 19.999 s
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 0 {
			t.Errorf("%v: %d passed before the window ended", algorithm, got)
		}
		clock.Advance(20 * time.Second)
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 10 || got == 0 {
			t.Errorf("%v: %d passed in a window later on", algorithm, got)
		}
		h.setAhead(3 * time.Second)
		if got := h.take("k", limit, 10); algorithm == headgate.FixedWindow && got != 10 {
			t.Errorf("%v: %d passed when the next window had begun by the new date, want 10", algorithm, got)
		}
	}
}

// Nobody is locked out for a year by a window that began by a date that was a year ahead.
func TestAKeyOfAWindowFarAheadIsClosedForOneWindowAtMost(t *testing.T) {
	t.Parallel()
	clock, all := hosts(t, 1, false, nil)
	h := all[0]
	h.setAhead(365 * 24 * time.Hour)
	h.take("k", tenIn10s, 3)
	clock.Advance(2 * time.Second)
	h.setAhead(0)
	if got := h.take("k", tenIn10s, 10); got != 0 {
		t.Errorf("%d passed in a window of which nobody knows what was counted, want none", got)
	}
	clock.Advance(8 * time.Second)
	if got := h.take("k", tenIn10s, 20); got != 10 {
		t.Errorf("%d passed in the next window, want 10", got)
	}
	if s := h.Changes(nil, 10); len(s) != 1 || s[0].Total != 10 {
		t.Errorf("got %+v, want what was consumed since", s)
	}
}

// The estimate is never further off than half of what the fastest answer took, and follows a date that was moved.
func TestADialGoesByTheFastestAnswer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		delay := func() time.Duration {
			return time.Millisecond + time.Duration(random.ExpFloat64()*float64(20*time.Millisecond))
		}
		var d dial
		var now time.Duration
		truth := time.Duration(random.Int64N(int64(time.Hour))) - 30*time.Minute
		for step := range 3 {
			fastest := time.Hour
			for range 100 {
				asked := now
				now += delay()
				date := now + truth
				now += delay()
				fastest = min(fastest, now-asked)
				ahead := d.read(date, asked, now)
				if off := (ahead - truth).Abs(); off > fastest+time.Second/dateDrift*100 {
					t.Fatalf("seed %d, step %d: off by %v, and the fastest answer took %v", seed, step, off, fastest)
				}
				now += time.Second
			}
			truth += time.Duration(random.Int64N(int64(time.Hour))) - 30*time.Minute // a failover, say
		}
	}
}

func TestAsyncFollowsAnExchangeWhoseDateMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []AsyncEventKind
		s := newSlate(time.Millisecond)
		all := startAsync(t, 1, s, func(_ *LedgerOptions, o *AsyncOptions) {
			o.OnEvent = func(e AsyncEvent) { kinds = append(kinds, e.Kind) }
		})
		for _, ahead := range []time.Duration{0, time.Minute, 0} {
			s.mu.Lock()
			s.ahead = ahead
			s.mu.Unlock()
			time.Sleep(2 * dateEvery)
			if got := all[0].Stats().Ahead; (got - ahead).Abs() > time.Millisecond {
				t.Errorf("the date is ahead by %v, want %v", got, ahead)
			}
		}
		closeAsync(t, all...)
		if want := []AsyncEventKind{DateOff, DateRight}; !slices.Equal(kinds, want) {
			t.Errorf("events: got %v, want %v", kinds, want)
		}
	})
}

func TestRegionTellsThatItsStoresDateIsNotTheFleets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []AsyncEventKind
		s := newSlate(time.Millisecond)
		s.ahead = 5 * time.Second
		lands := startLands(t, s, 1, 1, func(o *RegionOptions) {
			o.OnEvent = func(e AsyncEvent) { kinds = append(kinds, e.Kind) }
		})
		if err := lands[0].nodes[0].AskDate(context.Background()); err != nil {
			t.Fatal(err)
		}
		takeRegion(t, lands[0].nodes[0], "k", tenIn10s, 1)
		time.Sleep(2 * DefaultRegionInterval)
		if got := lands[0].nodes[0].Stats().Ahead; (got - s.ahead).Abs() > time.Millisecond {
			t.Errorf("the date is ahead by %v, want %v", got, s.ahead)
		}
		closeLands(t, lands)
		if want := []AsyncEventKind{DateOff, StoreDateOff}; !slices.Equal(kinds, want) {
			t.Errorf("events: got %v, want %v", kinds, want)
		}
		if got := lands[0].nodes[0].Stats().StoreOff; (got + s.ahead).Abs() > 10*time.Millisecond {
			t.Errorf("the store is off by %v, want %v", got, -s.ahead)
		}
	})
}
