package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// A key was in debt and denied for 9 s when its limit changed: the new rate was applied to these 9 s as well. A lowered limit took
// back what had drained, and a raised one forgave what had not.
func TestAChangedLimitDrainsADebtAtTheNewRateFromNowOn(t *testing.T) {
	const burst, nodes, wait = 50, 11, 9 * time.Second
	for _, tt := range []struct {
		name     string
		from, to int64 // units a second
	}{{"lowered", 50, 5}, {"raised", 5, 50}, {"lowered, and the rate does not divide", 47, 7}, {"raised, and the rate does not divide", 7, 47}} {
		t.Run(tt.name, func(t *testing.T) {
			modes(t, func(t *testing.T, asks bool) {
				clock, all := hosts(t, nodes, asks, nil)
				from := headgate.Limit{Count: tt.from, Period: time.Second, Burst: burst}
				to := headgate.Limit{Count: tt.to, Period: time.Second, Burst: burst}
				for _, h := range all {
					if got := h.take("k", from, burst); got != burst {
						t.Fatalf("passed before anybody knew: got %d, want %d", got, burst)
					}
				}
				shareAll(all...)
				h := all[0]
				wantRemaining(t, "when all is known", "k", from, burst-nodes*burst, h)
				const step = 100 * time.Millisecond
				for at := time.Duration(0); at < wait; at += step {
					if h.take("k", from, 1) != 0 {
						t.Fatal("passed in debt")
					}
					clock.Advance(step)
				}
				if h.take("k", from, 1) != 0 {
					t.Fatal("passed in debt")
				}
				level := nodes*burst - tt.from*int64(wait/time.Second)
				if got := h.remaining("k", to); got != burst-level {
					t.Errorf("remaining under the new limit: got %d, want %d", got, burst-level)
				}
				wantRemaining(t, "after a peek under the new one", "k", from, burst-level, h)
				var waited time.Duration
				for h.take("k", to, 1) == 0 {
					clock.Advance(step)
					waited += step
				}
				want := time.Duration(level-burst+1) * time.Second / time.Duration(tt.to)
				if waited < want-time.Second/time.Duration(tt.to) || waited > want+time.Second/time.Duration(tt.to)+step {
					t.Errorf("the key reopened after %v, want %v", waited, want)
				}
			})
		})
	}
}

// A debt that is deeper than any of the new limit stays.
func TestALimitThatIsLoweredAndRaisedForgivesNoDebt(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		_, all := hosts(t, 9, asks, nil)
		high, low := headgate.Per(100, 30*24*time.Hour), headgate.Per(2, 30*24*time.Hour)
		for _, h := range all {
			h.take("k", high, 100)
		}
		shareAll(all...)
		h := all[0]
		wantRemaining(t, "at first", "k", high, -800, h)
		h.take("k", low, 1)
		wantRemaining(t, "lowered", "k", low, -898, h)
		h.take("k", high, 1)
		wantRemaining(t, "raised again", "k", high, -800, h)
	})
}

// What a region knows of its store's level drains at the rate that was in force.
func TestAChangedLimitKeepsWhatARegionKnowsOfItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startLands(t, newSlate(10*time.Millisecond), 2, 1, nil)
		defer closeLands(t, all)
		from, to := headgate.Limit{Count: 50, Period: time.Second, Burst: 500}, headgate.Limit{Count: 5, Period: time.Second, Burst: 500}
		g := all[0].nodes[0]
		check := headgate.Check{Key: "k", Limit: from, Cost: 500}
		if d, err := g.Take(t.Context(), check); err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v, want allowed", d, err)
		}
		key, err := g.ledger.KeyOf(check)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		check.Cost = 400
		if d, err := g.Take(t.Context(), check); err != nil || d.Allowed || d.Remaining != 200 {
			t.Fatalf("got %+v, %v, want denied with 200 left", d, err)
		}
		now := g.ledger.now()
		sh := g.ledger.shardOf(&key)
		sh.mu.Lock()
		r := sh.records[key]
		p, err := g.ledger.plans.Get(&to, newPlan)
		if err != nil {
			t.Fatal(err)
		}
		g.ledger.arrive(r, p, 0, now)
		sh.mu.Unlock()
		time.Sleep(2 * time.Second)
		if _, level := g.ledger.levelOf(key); level != 290 {
			t.Errorf("level two seconds after the change: got %d, want 290", level)
		}
	})
}

func TestAsyncALoweredLimitReopensInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startAsync(t, 3, newSlate(time.Millisecond), nil)
		defer closeAsync(t, all...)
		from, to := headgate.Limit{Count: 10, Period: time.Second, Burst: 100}, headgate.Limit{Count: 5, Period: time.Second, Burst: 100}
		for _, a := range all {
			if d, err := a.Take(t.Context(), headgate.Check{Key: "k", Limit: from, Cost: 100}); err != nil || !d.Allowed {
				t.Fatalf("the first decision: got %+v, %v, want allowed", d, err)
			}
		}
		start := time.Now()
		for limit := from; ; time.Sleep(50 * time.Millisecond) {
			if time.Since(start) > 18*time.Second {
				limit = to
			}
			d, err := all[0].Take(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				break
			}
		}
		// 300 taken, 180 drained in 18 s, and 21 more at 5/s.
		if took, want := time.Since(start), 22200*time.Millisecond; (took - want).Abs() > 400*time.Millisecond {
			t.Errorf("the key reopened after %v, want %v", took, want)
		}
	})
}
