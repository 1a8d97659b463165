package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func TestAHostThatLiesIsNotBelievedAndReported(t *testing.T) {
	type refusal struct {
		from fleet.Peer
		why  string
	}
	for _, tt := range []struct {
		name string
		lie  func(t *tally.Tally)
		why  string
		left int64 // of 100
	}{
		{"a total that falls", func(t *tally.Tally) { t.Total = 5 }, tally.ReasonDecreased, 89},
		{"a total below zero", func(t *tally.Tally) { t.Total = -1 }, "a negative total", 89},
		{"a level below zero", func(t *tally.Tally) { t.Level = -1 }, "a negative level", 89},
		{"a start in the future", func(t *tally.Tally) { t.Start = 100 * time.Hour }, "a start in the future", 89},
		{"a total that leaps", func(t *tally.Tally) { t.Total = 1 << 60 }, tally.ReasonGrewTooMuch, 89 - 1000},
		{"no such limit", func(t *tally.Tally) { t.Key[3]++; t.Limit.Count = -3 }, reasonNoLimit, 89},
		{"a limit that is not shared", func(t *tally.Tally) { t.Key[3]++; t.Limit = headgate.InFlight(3) }, reasonNoLimit, 89},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var refused []refusal
			clock, all := hosts(t, 2, false, func(o *fleet.LedgerOptions) {
				o.OnRefused = func(from fleet.Peer, why string) { refused = append(refused, refusal{from, why}) }
			})
			clock.Advance(time.Second)
			limit := headgate.PerHour(100)
			all[0].take("k", limit, 1)
			all[1].take("k", limit, 10)
			honest := all[1].Changes(nil, 10)
			all[0].Apply(all[1].Peer, all[1].Uptime(), honest)
			lie := honest[0]
			tt.lie(&lie)
			all[0].Apply(all[1].Peer, all[1].Uptime(), []tally.Tally{lie})
			wantRemaining(t, "after the lie", "k", limit, tt.left, all[0])
			if len(refused) != 1 || refused[0] != (refusal{all[1].Peer, tt.why}) {
				t.Errorf("refused: got %v, want %v of %v", refused, tt.why, all[1].Peer)
			}
			if got := all[0].Stats().Refused; got != 1 {
				t.Errorf("Stats.Refused: got %d, want 1", got)
			}
		})
	}
}

// What was charged for a total that cannot be is charged once, and the peer's own totals count again above it.
func TestAHostThatSpokeNonsenseOnceIsHeardAgain(t *testing.T) {
	var refused []string
	_, all := hosts(t, 2, false, func(o *fleet.LedgerOptions) {
		o.OnRefused = func(_ fleet.Peer, why string) { refused = append(refused, why) }
	})
	limit := headgate.PerHour(100)
	all[0].take("k", limit, 1)
	all[1].take("k", limit, 10)
	said := all[1].Changes(nil, 10)[0]
	for _, step := range []struct {
		total, left int64
		refused     int64
	}{
		{10, 89, 0},
		{1 << 50, 89 - 1000, 1},
		{1 << 50, 89 - 1000, 2},
		{1 << 51, 89 - 1000, 3},
		{20, 89 - 1000, 4},
		{1010, 89 - 1000, 4},
		{1015, 84 - 1000, 4},
		{1020, 79 - 1000, 4},
	} {
		said.Total = step.total
		all[0].Apply(all[1].Peer, all[1].Uptime(), []tally.Tally{said})
		wantRemaining(t, fmt.Sprint("after a total of ", step.total), "k", limit, step.left, all[0])
		if got := all[0].Stats().Refused; got != step.refused {
			t.Errorf("after a total of %d: refused %d, want %d", step.total, got, step.refused)
		}
	}
	if len(refused) != 1 || refused[0] != tally.ReasonGrewTooMuch {
		t.Errorf("reported %q, want %q once", refused, tally.ReasonGrewTooMuch)
	}
}

// A level that is taken over cannot be deeper than a debt, and a total no more than can have been consumed, however
// long the peer says it has been there. Honest ones are heard after that as if it had said nothing more.
func TestAHostThatLiesWhenItIsFirstHeardOfIsNotBelieved(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		for _, limit := range []headgate.Limit{headgate.PerHour(100), headgate.MustParseLimit("100/d fixed-window")} {
			for _, lie := range []tally.Tally{{Total: 5, Level: 1 << 50}, {Total: 1 << 50, Level: 5}, {Total: 1 << 50, Level: 1 << 50}} {
				var refused []string
				clock, all := hosts(t, 3, asks, func(o *fleet.LedgerOptions) {
					o.OnRefused = func(from fleet.Peer, why string) { refused = append(refused, from.Name+": "+why) }
				})
				here, honest := all[0], all[1]
				clock.Advance(time.Second)
				here.take("k", limit, 1)
				honest.take("k", limit, 10)
				said := honest.write("k", limit)
				told := said.tallies[0]
				told.Start, told.Total, told.Level = 0, lie.Total, lie.Level
				here.Apply(fleet.Peer{Name: "liar", Incarnation: 7}, 1000*time.Hour, []tally.Tally{told})
				here.read(said)
				if got := here.remaining("k", limit); got < -(headgate.MaxDebt+1)*100 {
					t.Errorf("%s, %+v: got %d left, want no debt deeper than %d times the limit", limit, lie, got, headgate.MaxDebt)
				}
				if len(refused) != 1 || !strings.HasPrefix(refused[0], "liar: ") {
					t.Errorf("%s, %+v: refused %q, want what the liar said", limit, lie, refused)
				}
			}
		}
	})
}

func TestReportsOfLiesAreFew(t *testing.T) {
	reports := 0
	clock, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.OnRefused = func(fleet.Peer, string) { reports++ } })
	clock.Advance(time.Second)
	for range 1000 {
		all[0].Apply(fleet.Peer{Name: "liar"}, time.Second, []tally.Tally{{Total: -1}})
		clock.Advance(2500 * time.Microsecond)
	}
	if reports < 2 || reports > 4 {
		t.Errorf("reports within 2.5 s: got %d, want about 3", reports)
	}
	if got := all[0].Stats().Refused; got != 1000 {
		t.Errorf("Stats.Refused: got %d, want 1000", got)
	}
}
