//go:build !race

package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestDecisionAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	for _, limit := range everyAlgorithm {
		clock := &fakeClock{}
		s := newStore(t, Options{Now: clock.Now})
		b := bind(t, s, limit)
		check := headgate.Check{Key: "alice", Limit: b.Limit(), Cost: 1}
		all := []headgate.Check{check, {Key: "bob", Limit: b.Limit(), Cost: 1}, {Key: "carol", Limit: headgate.PerSecond(10), Cost: 1}}
		dst := make([]headgate.Decision, 0, len(all))
		for what, decide := range map[string]func(){
			"Bound.Allow":   func() { b.Allow("alice") },
			"Bound.Take":    func() { _, _ = b.Take(context.Background(), "alice", 1) },
			"Store.Take":    func() { _, _ = s.Take(ctx, check) },
			"Store.TakeAll": func() { _, _ = s.TakeAll(ctx, all, dst) },
		} {
			for range 10 { // until it is denied
				decide()
			}
			if got := testing.AllocsPerRun(100, decide); got != 0 {
				t.Errorf("%s: %s allocates %v times, want 0", limit, what, got)
			}
		}
		if _, err := s.Charge(ctx, headgate.Check{Key: "alice", Limit: b.Limit(), Cost: 30}); err == nil {
			inDebt := func() { clock.advance(time.Millisecond); b.Allow("alice") }
			inDebt()
			if got := testing.AllocsPerRun(100, inDebt); got != 0 {
				t.Errorf("%s: a denial in debt allocates %v times, want 0", limit, got)
			}
		}
		i := 0
		admit := func() {
			_ = s.Reset(ctx, headgate.Check{Key: "alice"})
			b.Allow("alice")
			i++
		}
		if got := testing.AllocsPerRun(100, admit); got != 0 {
			t.Errorf("%s: admitting allocates %v times, want 0", limit, got)
		}
	}
}
