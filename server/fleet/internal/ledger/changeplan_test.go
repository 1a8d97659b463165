package ledger

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A key was in debt and denied for 9 s when its limit changed: the new rate was applied to these 9 s as well. A lowered
// limit took back what had drained, and a raised one forgave what had not.
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
func TestAChangedLimitKeepsTheLevelThatAnotherLimiterReported(t *testing.T) {
	clock, all := hosts(t, 1, true, nil)
	l := all[0].Ledger
	from, to := headgate.Limit{Count: 50, Period: time.Second, Burst: 500}, headgate.Limit{Count: 5, Period: time.Second, Burst: 500}
	check := headgate.Check{Key: "k", Limit: from, Cost: 500}
	k := l.ObservedKey(&check)
	l.Observe(&check, &k, &headgate.Decision{Allowed: true, Limit: 500, Receipt: headgate.Receipt{Units: 500}})
	clock.Advance(4 * time.Second)
	check.Cost = 400
	l.Observe(&check, &k, &headgate.Decision{Limit: 500, Remaining: 200})
	p, err := l.plans.Get(&to, quota.NewPlan)
	if err != nil {
		t.Fatal(err)
	}
	sh := l.shardOf(&k.Key)
	sh.mu.Lock()
	l.applyLimit(sh.records[k.Key], p, 0, l.now())
	sh.mu.Unlock()
	clock.Advance(2 * time.Second)
	if _, level := l.LevelOf(k.Key); level != 290 {
		t.Errorf("level two seconds after the change: got %d, want 290", level)
	}
}
