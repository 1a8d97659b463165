package async

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A foreignBoard is an exchange that another fleet uses too.
type foreignBoard struct{ fleettest.NodeBoard }

func (s foreignBoard) Exchange(ctx context.Context, notes []fleet.Note, received func(int, fleet.PeerNote)) ([]int, error) {
	missed, err := s.NodeBoard.Exchange(ctx, notes, received)
	return missed, errors.Join(err, &fleet.ForeignError{Name: "fleet"})
}

func TestAsyncReportsNotesOfAnotherFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events atomic.Int64
		s := fleettest.NewBoard(time.Millisecond)
		o := Options{Name: "a", OnEvent: func(e fleet.Event) {
			if e.Kind != fleet.ExchangeNameConflict {
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

func TestAsyncMalformedNotesAreReportedAndIgnored(t *testing.T) {
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

func TestAsyncSendsMoreKeysThanFitInSeveralNotes(t *testing.T) {
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

func FuzzAsyncNote(f *testing.F) {
	f.Add(string(exchange.AppendNote(nil, time.Hour, &tally.Tally{Start: time.Second, Total: 12, Level: 5})))
	f.Add(string(exchange.AppendNote(nil, time.Hour, &tally.Tally{Start: time.Second, Total: 1 << 40, Level: 5, Window: 1767225600000000, Reset: true})))
	f.Add(string(exchange.AppendNote(nil, time.Hour, &tally.Tally{Start: time.Second, Total: 10, Level: 25, Window: 1767225600000000, Carried: 15})))
	f.Add(string(exchange.AppendNote(nil, time.Hour, &tally.Tally{
		Total: 10, Level: 25,
		Comparison: tally.Comparison{Sum: 40, SumValid: true, Digest: 0xfedc},
	})))
	f.Add("")
	f.Add("\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, note string) {
		var read tally.Tally
		uptime, ok := exchange.ReadNote(note, &read)
		if !ok {
			return
		}
		if uptime < 0 || read.Start < 0 || read.Total < 0 || read.Level < 0 || read.Carried < 0 {
			t.Fatalf("read %q: %v %+v: want nothing below zero", note, uptime, read)
		}
		var again tally.Tally
		up, ok := exchange.ReadNote(string(exchange.AppendNote(nil, uptime, &read)), &again)
		if !ok || up != uptime || again != read {
			t.Errorf("written and read again: got %v %+v %t, want %v %+v", up, again, ok, uptime, read)
		}
	})
}
