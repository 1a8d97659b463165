package memstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// The clock of a staggered key is behind by up to the period, which may be longer than the times that words can tell apart, and
// the store's own may have gone back as well.
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

// What was consumed under a limit that fits a word is still known under one whose clock is days behind, whoever reads it first.
func TestStaggeringForLongKeepsWhatWasConsumed(t *testing.T) {
	long := headgate.MustParseLimit("5/30d fixed-window staggered")
	for name, look := range map[string]func(t *testing.T, s *Store, c headgate.Check) headgate.Decision{
		"a take": func(t *testing.T, s *Store, c headgate.Check) headgate.Decision {
			return take(t, s, c.Key, long.String(), 0)
		},
		"several": func(t *testing.T, s *Store, c headgate.Check) headgate.Decision {
			return takeAll(t, s, []headgate.Check{c, {Key: "another", Limit: long}})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			for i := range 20 {
				take(t, s, key(i), "5/d fixed-window", 3)
				if d := look(t, s, headgate.Check{Key: key(i), Limit: long}); d.Remaining != 2 {
					t.Errorf("%s: %d remaining, want 2", key(i), d.Remaining)
				}
			}
		})
	}
}

// A refund is one that is given back under another limit than it was taken under, before anything is taken under that.
type refund struct {
	*Store
	at    int64 // µs
	check headgate.Check
	taken headgate.Receipt
	want  int64 // what remains then, as the algorithm says
}

// newRefund returns a refund of some of what was taken in a store, part of it a little later.
func newRefund(t *testing.T, s *Store, clock *fakeClock, limit string) refund {
	t.Helper()
	const first, second, given, later = 80_000, 9_000, 10_000, 100 // units, and µs
	const small = "90000/s"
	from, err := algorithm.NewPlan(headgate.MustParseLimit(small))
	if err != nil {
		t.Fatal(err)
	}
	to, err := algorithm.NewPlan(headgate.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	d := take(t, s, "alice", small, first)
	clock.advance(later * time.Microsecond)
	take(t, s, "alice", small, second)

	at := d.Receipt.At + later
	state, _ := from.Take(nil, d.Receipt.At, first, 0)
	state, _ = from.Take(state, at, second, 0)
	return refund{
		Store: s, at: at, taken: d.Receipt,
		check: headgate.Check{Key: "alice", Limit: to.Limit(), Cost: given},
		want:  to.Decide(to.Give(state, at, given, d.Receipt), at, 0).Remaining,
	}
}

// give gives it back, and returns the entry of the key, nil if it has none, and what remains by that.
func (r *refund) give(t *testing.T) (e *slot, remaining int64) {
	t.Helper()
	if err := r.Give(t.Context(), r.check, r.taken); err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(r.check.Limit)
	if err != nil {
		t.Fatal(err)
	}
	a := r.ask(p, r.check.Key, 0)
	if e = r.entry(a.hash); e != nil {
		remaining = p.DecidePair(a.unseal(atomic.LoadUint64(&e.state)), a.now, 0).Remaining
	}
	return e, remaining
}

// At the rates of these, more units pass in a period than a word has room for, or the period is longer than it can tell.
var unlikeLimits = []string{"1000003/s", "10000019/s", "999983/s burst 1", "3/366d burst 2", "1000000007/366d"}

func TestWhatIsGivenBackUnderAnotherLimitIsWhatTheAlgorithmSays(t *testing.T) {
	for _, limit := range unlikeLimits {
		clock := &fakeClock{}
		r := newRefund(t, newStore(t, Options{Now: clock.Now}), clock, limit)
		r.give(t)
		if got := take(t, r.Store, "alice", limit, 0).Remaining; got != r.want {
			t.Errorf("%s: %d remaining, want %d", limit, got, r.want)
		}
	}
}

// Where there is no room for more than a word, the word says so.
func TestWhatIsGivenBackUnderAnotherLimitInFullMemoryFitsTheWord(t *testing.T) {
	for _, limit := range unlikeLimits {
		clock := &fakeClock{}
		r := newRefund(t, newStore(t, Options{Now: clock.Now}), clock, limit)
		r.budget.mu.Lock()
		r.budget.most = 0
		r.budget.mu.Unlock()
		if e, got := r.give(t); e == nil || got != r.want {
			t.Errorf("%s: entry %v, %d remaining, want an entry and %d", limit, e, got, r.want)
		}
	}
}

// What is left after a refund lives as long as the limit says under which it is given.
func TestWhatIsGivenBackUnderASlowerLimitIsNotForgotten(t *testing.T) {
	clock := &fakeClock{}
	r := newRefund(t, newStore(t, Options{Now: clock.Now}), clock, "1000/d")
	e, got := r.give(t)
	if e == nil || got != r.want {
		t.Fatalf("entry %v, %d remaining, want an entry and %d", e, got, r.want)
	}
	if rest := left(atomic.LoadUint64(&e.tag), atomic.LoadUint64(&e.state), r.at, r.at); rest < time.Hour.Microseconds() {
		t.Errorf("it is forgotten after %d µs, want it known for hours", rest)
	}
}
