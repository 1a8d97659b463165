//go:build !race

package guard

import (
	"context"
	"testing"

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
