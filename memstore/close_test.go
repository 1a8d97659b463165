package memstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// Close ends what the store started: the bubble that it lives in does not end before all goroutines have.
func TestCloseEndsWhatTheStoreStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := bind(t, s, "5/h")
		for i := range 20_000 { // so many that memory is prepared for more
			b.Allow(key(i))
		}
		time.Sleep(2 * fullSweepTime) // the janitor goes around
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close again: got %v, want nil", err)
		}
	})
}

// A store that is closed decides nothing more, and says so.
func TestClosedStoreDecidesNothing(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	b := bind(t, s, "5/h")
	c := headgate.Check{Key: "alice", Limit: b.Limit(), Cost: 1}
	taken := take(t, s, c.Key, "5/h", 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, errs := t.Context(), map[string]error{}
	_, errs["Take"] = s.Take(ctx, c)
	_, errs["TakeAll"] = s.TakeAll(ctx, []headgate.Check{c}, nil)
	_, errs["TakeAll of two"] = s.TakeAll(ctx, checksOf("5/h", "alice", "bob"), nil)
	_, errs["Charge"] = s.Charge(ctx, c)
	errs["Give"] = s.Give(ctx, c, taken.Receipt)
	errs["Reset"] = s.Reset(ctx, c)
	_, errs["Bound.Take"] = b.Take(context.Background(), c.Key, 1)
	var each [1]error
	s.TakeEach(ctx, []*headgate.Check{&c}, []*headgate.Decision{{}}, each[:])
	errs["TakeEach"] = each[0]
	for name, err := range errs {
		if !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("%s: got %v, want %v", name, err, headgate.ErrClosed)
		}
	}
	if b.Allow(c.Key) {
		t.Error("Allow of a closed store: got true, want false")
	}
	if b.WithPolicy(headgate.Open).Allow(c.Key) {
		t.Error("Allow of a closed store under the policy Open: got true, want false")
	}
	p, err := s.newPlan(c.Limit)
	if err != nil {
		t.Fatal(err)
	}
	op := s.newOperation(p, c.Key, 0)
	if d := s.peek(&op); d.Remaining != 4 {
		t.Errorf("%d remaining, want the 4 that there were", d.Remaining)
	}
}
