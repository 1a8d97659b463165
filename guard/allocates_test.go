//go:build !race

package guard

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestDenialFromMemoryAllocatesNothing(t *testing.T) {
	f := newFake(t, nil)
	g := newGuard(t, f, Options{})
	ctx := context.Background()
	for _, limit := range []string{"1/h", "1/h sliding-window", "1/h fixed-window"} {
		c := check("a/"+limit, limit)
		all := []headgate.Check{check("a/other", "10/s"), c}
		dst := make([]headgate.Decision, 0, len(all))
		take(t, g, c)
		take(t, g, c)
		for what, decide := range map[string]func(){
			"Take":    func() { _, _ = g.Take(ctx, c) },
			"TakeAll": func() { _, _ = g.TakeAll(ctx, all, dst) },
		} {
			if got := testing.AllocsPerRun(100, decide); got != 0 {
				t.Errorf("%s: %s allocates %v times, want 0", limit, what, got)
			}
		}
	}
}

func TestDegradedDecisionAllocatesNothing(t *testing.T) {
	f := newFake(t, nil)
	g := newGuard(t, f, Options{Nodes: func() int { return 3 }})
	goDown(t, g, f, "a")
	f.breaks("a", fault{hangs: true})
	for _, p := range []headgate.Policy{headgate.Open, headgate.Closed, headgate.Local} {
		c := under(check("a/1", "100/s burst 200"), p)
		decide := func() { _, _ = g.Take(context.Background(), c) }
		if got := testing.AllocsPerRun(100, decide); got != 0 {
			t.Errorf("%v: allocates %v times, want 0", p, got)
		}
	}
}

// A forgetter is a store that forgets contexts.
type forgetter struct{ *fakeStore }

func (forgetter) ForgetsContexts() {}

func TestACallOfAStoreThatForgetsContextsLeavesNoGarbage(t *testing.T) {
	f := newFake(t, nil)
	ctx, c := context.Background(), check("a/1", "1000000/s")
	allocated := func(g *Guard) float64 {
		return testing.AllocsPerRun(50*manyTerms, func() {
			if d, err := g.Take(ctx, c); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		})
	}
	alone := testing.AllocsPerRun(50*manyTerms, func() { _, _ = f.Take(ctx, c) })
	if got := allocated(newGuard(t, forgetter{f}, Options{Deadline: time.Minute})); got != alone {
		t.Errorf("allocates %v times, want %v as without a guard", got, alone)
	}
	if got := allocated(newGuard(t, f, Options{Deadline: time.Minute})); got <= alone {
		t.Errorf("a store that does not say that it forgets contexts: allocates %v times, want a context for each", got)
	}
}
