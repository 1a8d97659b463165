package async

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// takeAsync takes units one by one and returns how many passed.
func takeAsync(t testing.TB, a *Limiter, key string, l headgate.Limit, n int) (passed int) {
	t.Helper()
	for range n {
		d, err := a.Take(context.Background(), headgate.Check{Key: key, Limit: l, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

// leftAsync checks what remains of a key on all nodes.
func leftAsync(t testing.TB, when, key string, l headgate.Limit, want int64, all ...*Limiter) {
	t.Helper()
	for _, a := range all {
		d, err := a.Peek(context.Background(), headgate.Check{Key: key, Limit: l})
		if err != nil || d.Remaining != want {
			t.Errorf("%s: remaining on %s: got %d, %v, want %d", when, a.self.Name, d.Remaining, err, want)
		}
	}
}

// talk gives nodes the time to hear of each other.
func talk() { time.Sleep(DefaultInterval + 20*time.Millisecond) }

func TestAsyncThreeHostsThatTakeAllAtOnceOwe8AndStayClosedForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startAsync(t, 3, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		limit := headgate.PerSecond(4)
		leftAsync(t, "at first", "k", limit, 4, all...) // all know the key
		start := time.Now()
		passed := 0
		for _, a := range all {
			passed += takeAsync(t, a, "k", limit, 6)
		}
		if passed != 12 {
			t.Errorf("passed before anybody knew: got %d, want 12", passed)
		}
		talk()
		leftAsync(t, "after sharing", "k", limit, -8, all...)
		for passed = 0; passed == 0; time.Sleep(time.Millisecond) {
			for _, a := range all {
				passed += takeAsync(t, a, "k", limit, 1)
			}
		}
		if shut := time.Since(start); shut < 2*time.Second || shut > 2300*time.Millisecond {
			t.Errorf("closed for %v, want 2 s, and then until there is a unit", shut)
		}
	})
}

func TestAsyncThreeHostsThatTakeWithinTheLimitAllKnowThatNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startAsync(t, 3, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		limit := headgate.PerSecond(4)
		takeAsync(t, all[0], "k", limit, 1)
		takeAsync(t, all[1], "k", limit, 2)
		takeAsync(t, all[2], "k", limit, 1)
		talk()
		leftAsync(t, "after sharing", "k", limit, 0, all...)
	})
}

func TestAsyncNobodyIsChargedTwiceWhenTheExchangeLosesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		all := startAsync(t, 3, s, nil)
		defer closeAsync(t, all...)
		limit := headgate.PerHour(1000)
		for round := range 5 {
			for _, a := range all {
				takeAsync(t, a, "k", limit, 10)
			}
			talk()
			leftAsync(t, fmt.Sprint("round ", round), "k", limit, int64(1000-30*(round+1)), all...)
			s.Wipe()
		}
	})
}

func TestAsyncANodeThatStartsAgainBeginsWhereTheOthersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		all := startAsync(t, 2, s, nil)
		limit := headgate.PerHour(1000)
		for range 50 {
			takeAsync(t, all[0], "k", limit, 4)
			takeAsync(t, all[1], "k", limit, 4)
			time.Sleep(time.Second)
		}
		closeAsync(t, all[1])
		again := startAsync(t, 2, s, func(_ *fleet.LedgerOptions, o *Options) {
			o.Incarnation += 1000
			o.Name = strings.Replace(o.Name, "0", "2", 1)
		})
		all = append(all[:1], again...)
		defer closeAsync(t, all...)
		time.Sleep(time.Second)
		for _, a := range all {
			takeAsync(t, a, "k", limit, 1)
		}
		// 403 taken, of which 14 were given back by time, and one more in 3.6 s. Who is ahead of the others comes to their
		// level within a while.
		const want, patience = 1000 - 403 + 14, 60
		var left []int64
		for second := range int64(patience) {
			talk()
			left = left[:0]
			for _, a := range all {
				d, err := a.Peek(context.Background(), headgate.Check{Key: "k", Limit: limit})
				if err != nil || d.Remaining < want-1 {
					t.Fatalf("after the restart: remaining on %s: got %d, %v, want at least %d", a.self.Name, d.Remaining, err, want-1)
				}
				left = append(left, d.Remaining)
			}
			if slices.Max(left)-slices.Min(left) <= 1 && slices.Max(left) <= want+1+second {
				return
			}
			time.Sleep(time.Second)
		}
		t.Errorf("after the restart: got %d left, want about %d everywhere", left, want)
	})
}

func TestAsyncCloseTellsWhatOthersDontKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startAsync(t, 2, fleettest.NewBoard(time.Millisecond), func(_ *fleet.LedgerOptions, o *Options) { o.MaxKeys = 7 })
		limit := headgate.PerHour(100)
		for i := range 100 {
			takeAsync(t, all[0], fmt.Sprint(i), limit, 2)
		}
		closeAsync(t, all[0])
		for i := range 100 {
			takeAsync(t, all[1], fmt.Sprint(i), limit, 1)
		}
		time.Sleep(2 * time.Second)
		for i := range 100 {
			leftAsync(t, "after the other ended", fmt.Sprint(i), limit, 97, all[1])
		}
		closeAsync(t, all[1])
		if err := all[1].Close(context.Background()); err != nil {
			t.Errorf("a second Close: got %v, want nil", err)
		}
		if _, err := all[1].Peek(context.Background(), headgate.Check{Key: "k", Limit: limit}); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("Take when closed: got %v, want ErrClosed", err)
		}
	})
}

func TestAsyncCloseGivesUpWhenItsContextDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startAsync(t, 1, fleettest.NewBoard(time.Hour), func(_ *fleet.LedgerOptions, o *Options) {
			o.Deadline, o.OnEvent = 2*time.Hour, func(fleet.Event) {}
		})
		takeAsync(t, all[0], "k", headgate.PerHour(100), 2)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		_ = all[0].Close(ctx)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("Close took %v, want the second that its context lasted", took)
		}
	})
}

func TestAsyncGoesOnWhileTheExchangeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []fleet.Event
		s := fleettest.NewBoard(time.Millisecond)
		all := startAsync(t, 2, s, func(lo *fleet.LedgerOptions, o *Options) {
			lo.Members = &fleettest.Members{LiveNodes: 2, KnownNodes: 2}
			o.OnEvent = func(e fleet.Event) {}
			if o.Name == "node 0" {
				o.OnEvent = func(e fleet.Event) { events = append(events, e) }
			}
		})
		defer closeAsync(t, all...)
		limit := headgate.PerHour(1000)
		takeAsync(t, all[0], "k", limit, 10)
		takeAsync(t, all[1], "k", limit, 10)
		talk()
		leftAsync(t, "before", "k", limit, 980, all...)

		s.SetDown(true)
		takeAsync(t, all[0], "k", limit, 10)
		time.Sleep(time.Second)
		leftAsync(t, "while it is away, by itself", "k", limit, 970, all[0])
		check := headgate.Check{Key: "k", Limit: limit, Cost: 1, OnFailure: headgate.Local}
		if d, err := all[0].Take(context.Background(), check); err != nil || d.Limit != 500 || !d.Degraded {
			t.Errorf("local, while it is away: got %+v, %v, want a limit of 500, degraded", d, err)
		}
		check.OnFailure = headgate.Closed
		if d, err := all[0].Take(context.Background(), check); err != nil || d.Allowed || !d.Degraded || d.RetryAfter <= 0 {
			t.Errorf("closed, while it is away: got %+v, %v, want denied for a while, degraded", d, err)
		}
		if !all[0].Stats().Unreachable || all[0].Stats().Failures == 0 {
			t.Errorf("stats: got %+v, want away and failures", all[0].Stats())
		}

		s.SetDown(false)
		talk()
		leftAsync(t, "when it is back", "k", limit, 969, all[0])
		takeAsync(t, all[1], "k", limit, 1)
		takeAsync(t, all[0], "k", limit, 1)
		talk()
		leftAsync(t, "when it is back", "k", limit, 967, all...)
		if d, err := all[0].Take(context.Background(), check); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("closed, when it is back: got %+v, %v, want allowed", d, err)
		}
		if len(events) != 2 || events[0].Kind != fleet.ExchangeUnreachable || !errors.Is(events[0].Err, fleettest.ErrDown) ||
			events[1].Kind != fleet.ExchangeReachable || events[1].Down < time.Second {
			t.Errorf("events: got %v, want away and back after a second", events)
		}
	})
}

func TestAsyncNewcomerRepaysWhatItLetPassBeforeItHeardOfTheOthers(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := startAsync(t, 2, fleettest.NewBoard(delay), nil)
				defer closeAsync(t, all...)
				limit := headgate.PerMinute(60)
				start := time.Now()
				passed := takeAsync(t, all[0], "k", limit, 60)
				time.Sleep(3 * time.Second)
				if d, err := all[1].Take(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 60}); err != nil || !d.Allowed {
					t.Fatalf("the first decision: got %+v, %v, want allowed", d, err)
				}
				passed += 60
				talk()
				if d, err := all[1].Peek(t.Context(), headgate.Check{Key: "k", Limit: limit}); err != nil || d.Remaining < -59 || d.Remaining > -55 {
					t.Errorf("remaining when it has heard of the other: got %d, %v, want about -57", d.Remaining, err)
				}
				for time.Since(start) < 2*time.Minute { // only the newcomer is asked
					passed += takeAsync(t, all[1], "k", limit, 1)
					time.Sleep(250 * time.Millisecond)
				}
				if most := 60 + 2*60; passed > most+1 || passed < most-5 {
					t.Errorf("passed in 2 minutes: got %d, want %d", passed, most)
				}
			})
		})
	}
}

func TestAsyncNodeThatNobodyAskedNoticesThatTheExchangeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		var events []fleet.EventKind
		all := startAsync(t, 1, s, func(_ *fleet.LedgerOptions, o *Options) {
			o.OnEvent = func(e fleet.Event) { events = append(events, e.Kind) }
		})
		defer closeAsync(t, all...)
		time.Sleep(time.Minute)
		if stats := all[0].Stats(); stats.Unreachable || stats.Failures != 0 || stats.Exchanges < 100 || stats.Exchanges > 400 {
			t.Errorf("stats after a quiet minute: got %+v, want about 240 exchanges that all were answered", stats)
		}
		s.SetDown(true)
		time.Sleep(2 * exchange.DefaultMissed * DefaultInterval)
		check := headgate.Check{Key: "k", Limit: headgate.PerHour(1000), Cost: 1, OnFailure: headgate.Closed}
		if d, err := all[0].Take(context.Background(), check); err != nil || d.Allowed || !d.Degraded {
			t.Errorf("the first that comes while it is away: got %+v, %v, want denied", d, err)
		}
		s.SetDown(false)
		time.Sleep(2 * exchange.DefaultMissed * DefaultInterval)
		if d, err := all[0].Take(context.Background(), check); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("the first that comes when it is back: got %+v, %v, want allowed", d, err)
		}
		if !slices.Equal(events, []fleet.EventKind{fleet.ExchangeUnreachable, fleet.ExchangeReachable}) {
			t.Errorf("events: got %v, want away and back", events)
		}
	})
}

// A foreignBoard is an exchange that another fleet uses too.
type foreignBoard struct{ fleettest.NodeBoard }

func (s foreignBoard) Exchange(ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote)) ([]int, error) {
	missed, err := s.NodeBoard.Exchange(ctx, notes, received)
	return missed, errors.Join(err, &fleet.ForeignError{Name: "fleet"})
}

func TestAsyncTellsOfAnotherFleetAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events atomic.Int64
		s := fleettest.NewBoard(time.Millisecond)
		o := Options{Name: "a", OnEvent: func(e fleet.Event) {
			if e.Kind != fleet.ExchangeForeign {
				t.Errorf("event: got %v, want foreign", e.Kind)
			}
			events.Add(1)
		}}
		a, err := New(fleet.LedgerOptions{Secret: fleettest.Secret}, foreignBoard{s.Node("a")}, o)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			takeAsync(t, a, "k", headgate.PerHour(1000), 1)
			time.Sleep(50 * time.Millisecond)
		}
		if got := events.Load(); got < 1 || got > 2 {
			t.Errorf("events within 15 s: got %d, want 1 or 2", got)
		}
		if stats := a.Stats(); stats.Failures != 0 || stats.Foreign < 100 || stats.Unreachable {
			t.Errorf("stats: got %+v, want no failures and some hundreds foreign", stats)
		}
		_ = a.Close(context.Background())
	})
}

func TestAsyncGarbledNotesAreToldOfAndDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		var events []fleet.Event
		all := startAsync(t, 1, s, func(_ *fleet.LedgerOptions, o *Options) {
			o.OnEvent = func(e fleet.Event) { events = append(events, e) }
		})
		defer closeAsync(t, all...)
		limit := headgate.PerHour(1000)
		takeAsync(t, all[0], "k", limit, 1)
		talk()
		s.Mu.Lock()
		for _, notes := range s.Notes {
			notes["x"] = fleettest.Note{Text: "not a note", At: time.Now()}
			notes[exchange.Author(fleet.Peer{Name: "liar", Incarnation: 3})] = fleettest.Note{Text: "neither", At: time.Now()}
		}
		s.Mu.Unlock()
		takeAsync(t, all[0], "k", limit, 1)
		talk()
		leftAsync(t, "after garbage", "k", limit, 998, all...)
		if got := all[0].Stats().Malformed; got < 2 {
			t.Errorf("Stats.Garbled: got %d, want at least 2", got)
		}
		if len(events) != 1 || events[0].Kind != fleet.ExchangeMalformed || events[0].Err == nil {
			t.Errorf("events: got %v, want one that tells of it", events)
		}
	})
}

func TestAsyncTellsMoreKeysThanFitOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(5 * time.Millisecond)
		all := startAsync(t, 2, s, func(_ *fleet.LedgerOptions, o *Options) { o.MaxKeys = 50 })
		defer closeAsync(t, all...)
		limit := headgate.PerHour(100)
		const keys = 2000
		for i := range keys {
			takeAsync(t, all[0], fmt.Sprint(i), limit, 1)
			takeAsync(t, all[1], fmt.Sprint(i), limit, 1)
		}
		// The hottest comes last, and is told first.
		takeAsync(t, all[0], "hot", limit, 60)
		takeAsync(t, all[1], "hot", limit, 30)
		talk()
		leftAsync(t, "soon", "hot", limit, 10, all...)
		if waiting := all[0].Stats().Waiting; waiting < keys/2 {
			t.Errorf("waiting: got %d keys, want most of %d", waiting, keys)
		}
		time.Sleep(3 * time.Second)
		right := 0
		for i := range keys {
			for _, a := range all {
				if d, err := a.Peek(context.Background(), headgate.Check{Key: fmt.Sprint(i), Limit: limit}); err == nil && d.Remaining == 98 {
					right++
				}
			}
		}
		// Each heard of what the other had told when it asked; who told first has to ask once more to hear of the other.
		if right < keys {
			t.Errorf("keys known in full: got %d, want at least %d of %d", right, keys, 2*keys)
		}
		for i := range keys {
			takeAsync(t, all[0], fmt.Sprint(i), limit, 1)
			takeAsync(t, all[1], fmt.Sprint(i), limit, 1)
		}
		time.Sleep(3 * time.Second)
		for i := range keys {
			for _, a := range all {
				if d, err := a.Peek(context.Background(), headgate.Check{Key: fmt.Sprint(i), Limit: limit}); err != nil || d.Remaining > 97 {
					t.Fatalf("key %d on %s: got %d left, %v, want at most 97", i, a.self.Name, d.Remaining, err)
				}
			}
		}
	})
}

func TestAsyncRefusesBadOptions(t *testing.T) {
	x := fleettest.NewBoard(0).Node("a")
	for _, tt := range []struct {
		name string
		lo   fleet.LedgerOptions
		x    fleet.Exchange
		o    Options
		want string
	}{
		{"no name", fleet.LedgerOptions{}, x, Options{}, "Name"},
		{"a long name", fleet.LedgerOptions{}, x, Options{Name: strings.Repeat("x", 65)}, "Name"},
		{"no exchange", fleet.LedgerOptions{}, nil, Options{Name: "a"}, "Exchange"},
		{"a short interval", fleet.LedgerOptions{}, x, Options{Name: "a", Interval: time.Millisecond}, "Interval"},
		{"a long interval", fleet.LedgerOptions{}, x, Options{Name: "a", Interval: time.Minute}, "Interval"},
		{"no keys", fleet.LedgerOptions{}, x, Options{Name: "a", MaxKeys: -1}, "MaxKeys"},
		{"no time", fleet.LedgerOptions{}, x, Options{Name: "a", Deadline: 1}, "Deadline"},
		{"no patience", fleet.LedgerOptions{}, x, Options{Name: "a", Missed: -1}, "Missed"},
		{"a short secret", fleet.LedgerOptions{Secret: []byte("x")}, x, Options{Name: "a"}, "Secret"},
		{"few keys", fleet.LedgerOptions{MaxKeys: 3}, x, Options{Name: "a"}, "MaxKeys"},
		{"a cap above all", fleet.LedgerOptions{LocalCap: 101}, x, Options{Name: "a"}, "LocalCap"},
		{"never idle", fleet.LedgerOptions{Idle: time.Millisecond}, x, Options{Name: "a"}, "Idle"},
		{"late for ever", fleet.LedgerOptions{Lag: time.Hour}, x, Options{Name: "a"}, "Lag"},
	} {
		if tt.name == "late for ever" {
			tt.lo.Idle = time.Minute
		}
		if _, err := New(tt.lo, tt.x, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error about %s", tt.name, err, tt.want)
		}
	}
}

func TestAsyncAuthorsOfTwoLivesDiffer(t *testing.T) {
	one, two := Options{Name: "a"}, Options{Name: "a"}
	if one.Author() == two.Author() {
		t.Errorf("two lives of a node have the same author %q", one.Author())
	}
	again := one.Author()
	if again != one.Author() {
		t.Error("one life has two authors")
	}
	p, ok := exchange.ParseAuthor(again)
	if want := (fleet.Peer{Name: "a", Incarnation: one.Incarnation}); !ok || p != want || p.Incarnation == 0 {
		t.Errorf("the peer of an author: got %v, %t, want %v", p, ok, want)
	}
}

func FuzzAsyncNote(f *testing.F) {
	f.Add(string(exchange.AppendNote(nil, time.Hour, &ledger.Tally{Start: time.Second, Total: 12, Level: 5})))
	f.Add(string(exchange.AppendNote(nil, time.Hour, &ledger.Tally{Start: time.Second, Total: 1 << 40, Level: 5, Window: 1767225600000000, Reset: true})))
	f.Add(string(exchange.AppendNote(nil, time.Hour, &ledger.Tally{Start: time.Second, Total: 10, Level: 25, Window: 1767225600000000, Carried: 15})))
	f.Add("")
	f.Add("\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, note string) {
		var tally ledger.Tally
		uptime, ok := exchange.ReadNote(note, &tally)
		if !ok {
			return
		}
		if uptime < 0 || tally.Start < 0 || tally.Total < 0 || tally.Level < 0 || tally.Carried < 0 {
			t.Fatalf("read %q: %v %+v: want nothing below zero", note, uptime, tally)
		}
		var again ledger.Tally
		up, ok := exchange.ReadNote(string(exchange.AppendNote(nil, uptime, &tally)), &again)
		if !ok || up != uptime || again != tally {
			t.Errorf("written and read again: got %v %+v %t, want %v %+v", up, again, ok, uptime, tally)
		}
	})
}
