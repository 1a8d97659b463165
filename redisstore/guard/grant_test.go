package guard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

// A grantingFake is a fakeStore that grants.
type grantingFake struct {
	*fakeStore
	steps *stepstore.Store
}

func (f grantingFake) Grant(ctx context.Context, c headgate.Check, want, share int64) (headgate.Decision, error) {
	if err := f.begin(ctx, c.Key, "grant "+c.Key); err != nil {
		return headgate.Decision{}, err
	}
	return f.steps.Grant(ctx, c, want, share)
}

func newGranting(t *testing.T) (grantingFake, *Guard) {
	t.Helper()
	fake := grantingFake{newFake(t, time.Now), stepstore.New(time.Now)}
	g, err := New(fake, Options{OnEvent: func(Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return fake, g
}

func TestGrantPassesThroughTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, g := newGranting(t)
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(100), Cost: 1}
		d, err := g.Grant(t.Context(), c, 30, 2)
		if err != nil || !d.Allowed || d.Receipt.Units != 30 || d.Degraded {
			t.Errorf("got %+v, %v, want 30 units", d, err)
		}
		if got := g.Stats().Calls; got != 1 {
			t.Errorf("%d calls counted, want 1", got)
		}
	})
}

func TestGrantFailsWhileTheStoreIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, g := newGranting(t)
		fake.breaks("a", fault{hangs: true})
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(100), Cost: 1}
		for range 10 {
			began := time.Now()
			d, err := g.Grant(t.Context(), c, 30, 2)
			if !errors.Is(err, ErrUnavailable) || d.Receipt.Units != 0 {
				t.Fatalf("got %+v, %v, want no units and %v", d, err, ErrUnavailable)
			}
			if took := time.Since(began); took > DefaultDeadline {
				t.Errorf("it took %v, want at most %v", took, DefaultDeadline)
			}
		}
		if n := g.Stats(); n.Calls != tripInRow || n.Open != 0 {
			t.Errorf("got %d calls and %d decisions by policy, want %d and none: the circuit is open", n.Calls, n.Open, tripInRow)
		}
		for policy, allowed := range map[headgate.Policy]bool{headgate.Open: true, headgate.Closed: false, headgate.Local: true} {
			c.OnFailure = policy
			if d, err := g.Degrade(t.Context(), c); err != nil || d.Allowed != allowed || !d.Degraded {
				t.Errorf("%s: got %+v, %v, want Allowed %t and Degraded", policy, d, err, allowed)
			}
		}
		if n := g.Stats(); n.Open != 1 || n.Closed != 1 || n.Local != 1 {
			t.Errorf("got %+v, want one decision of each policy", n)
		}
	})
}

func TestGrantOfAnotherStoreIsUnsupported(t *testing.T) {
	g, err := New(newFake(t, time.Now), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	c := headgate.Check{Key: "a", Limit: headgate.PerSecond(100), Cost: 1}
	if _, err := g.Grant(t.Context(), c, 30, 2); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("got %v, want %v", err, headgate.ErrUnsupported)
	}
	if _, err := g.Grant(t.Context(), headgate.Check{Key: "a", Limit: c.Limit}, 30, 2); !errors.Is(err, headgate.ErrInvalidCheck) {
		t.Errorf("cost 0: got %v, want %v", err, headgate.ErrInvalidCheck)
	}
}
