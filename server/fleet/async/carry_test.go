package async

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// A node that did not see the window in which too much passed hears of it from the notes of the next.
func TestAsyncANewcomerKnowsWhatWasCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleettest.WaitForNextHour()
		limit := headgate.MustParseLimit("10/m fixed-window")
		all := startAsync(t, 4, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		for _, a := range all[:3] {
			if d, err := a.Take(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 6}); err != nil || !d.Allowed {
				t.Fatalf("the first decision: got %+v, %v, want allowed", d, err)
			}
		}
		talk()
		leftAsync(t, "18 in all", "k", limit, -8, all[:3]...)
		time.Sleep(time.Minute)
		if got := takeAsync(t, all[0], "k", limit, 5); got != 2 {
			t.Errorf("passed in the next window: got %d, want 2", got)
		}
		talk()
		leftAsync(t, "a node that is new", "k", limit, 0, all[3])
	})
}

// In the long run no more passes than the limit: what is too much in one window is missing in the next.
func TestAsyncWindowsDoNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const windows, nodes, times = 15, 3, 5
		limit := headgate.MustParseLimit("100/s fixed-window")
		fleettest.WaitForNextHour()
		all := startAsync(t, nodes, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		rng := rand.New(rand.NewPCG(1, 2))
		passed, worst := 0, 0
		for range windows {
			inThis := 0
			for range 1000 {
				for range fleettest.Poisson(rng, times*100/1000.0) {
					inThis += takeAsync(t, all[rng.IntN(nodes)], "k", limit, 1)
				}
				time.Sleep(time.Millisecond)
			}
			passed += inThis
			worst = max(worst, inThis)
		}
		t.Logf("passed %d of %d; at most %d in a window", passed, windows*100, worst)
		// The excess of the last window is yet to be repaid: (λ−r)S.
		if most := windows*100 + (times-1)*100/10; passed > most || worst <= 100 {
			t.Errorf("passed in %d windows: got %d, want at most %d, and more than 100 in some; the most was %d", windows, passed, most, worst)
		}
		if passed < windows*100*95/100 {
			t.Errorf("passed in %d windows: got %d, want nearly %d", windows, passed, windows*100)
		}
	})
}

// Units that are consumed too late for an exchange in their window are carried as well.
func TestAsyncUnitsOfTheEndOfAWindowAreCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const windows = 16
		limit := headgate.MustParseLimit("100/s fixed-window")
		fleettest.WaitForNextHour()
		all := startAsync(t, 3, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		passed := 0
		for range windows {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second - 10*time.Millisecond)))
			for _, a := range all {
				passed += takeAsync(t, a, "k", limit, 50)
			}
			time.Sleep(time.Second / 2)
		}
		if most := (windows + 2) * 100; passed > most || passed < windows*80 {
			t.Errorf("passed in %d windows: got %d, want %d to %d", windows, passed, windows*80, most)
		}
		t.Logf("passed %d of %d", passed, windows*100)
	})
}

// Nodes store what is carried in every window, also if nobody consumes anything in it.
func TestAsyncNewcomerKnowsTheDebtOfAnOlderWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleettest.WaitForNextHour()
		limit := headgate.MustParseLimit("10/m fixed-window")
		all := startAsync(t, 5, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		for _, a := range all[:4] {
			if d, err := a.Take(t.Context(), headgate.Check{Key: "k", Limit: limit, Cost: 10}); err != nil || !d.Allowed {
				t.Fatalf("the first decision: got %+v, %v, want allowed", d, err)
			}
		}
		talk()
		time.Sleep(2*time.Minute + 10*time.Second)
		leftAsync(t, "two windows later", "k", limit, -10, all...)
	})
}
