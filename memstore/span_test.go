package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// The clock of a staggered key is behind by up to the period, which may be longer than the times that words can tell
// apart, and the store's own may have gone back as well.
func TestStaggeredWindowsOfAnyPeriodAreDecided(t *testing.T) {
	for _, limit := range []string{
		"5/h fixed-window staggered", "5/1d fixed-window staggered", "5/38h fixed-window staggered", "5/2d fixed-window staggered",
		"5/3d fixed-window staggered", "5/30d fixed-window staggered", "5/366d fixed-window staggered",
	} {
		for _, back := range []time.Duration{0, 18 * time.Hour, 20 * time.Hour, 40 * time.Hour, 56 * time.Hour, 60 * time.Hour, 600 * time.Hour} {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			clock.advance(-back)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range 20 {
					takeGiveAndCharge(t, s, headgate.Check{Key: key(i), Limit: headgate.MustParseLimit(limit), Cost: 2})
				}
			}()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s, the clock back by %s: no decision within 20 s", limit, back)
			}
		}
	}
}

// takeGiveAndCharge does so, for a key that has consumed nothing, and wants what was taken to be consumed once.
func takeGiveAndCharge(t *testing.T, s *Store, c headgate.Check) {
	t.Helper()
	ctx, want := context.Background(), c.Limit.Capacity()-c.Cost
	d, err := s.Take(ctx, c)
	if err != nil || !d.Allowed || d.Remaining != want {
		t.Errorf("take: %+v, %v; want it allowed with %d remaining", d, err, want)
	}
	if err := s.Give(ctx, c, d.Receipt); err != nil {
		t.Error(err)
	}
	if d, err := s.Charge(ctx, c); err != nil || d.Remaining != want {
		t.Errorf("charge: %+v, %v; want %d remaining", d, err, want)
	}
}

// What was consumed under a limit that fits a word is still known under one whose clock is days behind, whichever call
// reads it first.
func TestStaggeringForLongKeepsWhatWasConsumed(t *testing.T) {
	long := headgate.MustParseLimit("5/30d fixed-window staggered")
	for name, look := range map[string]func(t *testing.T, s *Store, c headgate.Check) headgate.Decision{
		"a take": func(t *testing.T, s *Store, c headgate.Check) headgate.Decision {
			return take(t, s, c.Key, long.String(), 0)
		},
		"several": func(t *testing.T, s *Store, c headgate.Check) headgate.Decision {
			return takeAll(t, s, []headgate.Check{c, {Key: "another", Limit: long, Cost: 6}})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			for i := range 20 {
				take(t, s, key(i), "5/d fixed-window", 3)
				if d := look(t, s, headgate.Check{Key: key(i), Limit: long, Cost: 1}); d.Remaining != 2 {
					t.Errorf("%s: %d remaining, want 2", key(i), d.Remaining)
				}
			}
		})
	}
}

// A refund that names another limit goes to the one in force, by the faster of their rates, and the other one sees it,
// in full memory too.
func TestWhatIsGivenBackUnderAnotherLimitGoesByTheOneInForce(t *testing.T) {
	const first, second, given, later = 80_000, 9_000, 10_000, 100 // units, and µs
	const small = "90000/s"
	from := mustPlan(t, small)
	for _, limit := range []string{"1000003/s", "10000019/s", "999983/s burst 1", "3/366d burst 2", "1000000007/366d", "1000/d", "100000/d fixed-window"} {
		for _, full := range []bool{false, true} {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			d := take(t, s, "alice", small, first)
			clock.advance(later * time.Microsecond)
			take(t, s, "alice", small, second)
			if full {
				s.budget.SetLimit(0)
			}
			to := mustPlan(t, limit)
			if err := s.Give(t.Context(), headgate.Check{Key: "alice", Limit: to.Limit(), Cost: given}, d.Receipt); err != nil {
				t.Fatal(err)
			}

			at := d.Receipt.At + later
			state, _ := from.Take(nil, d.Receipt.At, first, 0)
			state, _ = from.Take(state, at, second, 0)
			state = state.GiveBack(to, at, given, d.Receipt)
			want := to.Decide(to.Convert(state, 0, at), at, 0).Remaining
			if got := take(t, s, "alice", limit, 0).Remaining; got != want {
				t.Errorf("%s: %d remaining, want %d", limit, got, want)
			}
		}
	}
}

func mustPlan(t *testing.T, limit string) *algorithm.Plan {
	t.Helper()
	p, err := algorithm.NewPlan(headgate.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
