package region

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// remaining returns how many units a node has left of a key.
func remaining(t testing.TB, g headgate.Limiter, key string, limit headgate.Limit) int64 {
	t.Helper()
	d, err := g.Peek(context.Background(), headgate.Check{Key: key, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// untilWindow sleeps until a time before the end of the current window of a minute.
func untilWindow(before time.Duration) {
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute - before)))
}

// Units that a region consumed in the window before count in other regions from the second decision on, whether that
// region has consumed any since or not.
func TestConsumptionBeforeAWindowBeganCountsInOtherRegions(t *testing.T) {
	for _, text := range []string{"100/m sliding-window", "100/m fixed-window"} {
		for _, before := range []time.Duration{6 * time.Second, 100 * time.Millisecond} {
			for _, takes := range []int{0, 3} { // of each node of the first region in the new window
				t.Run(fmt.Sprint(text, " ", before, " ", takes), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						fleettest.WaitForNextHour()
						const nodes = 2
						all := startLands(t, fleettest.NewBoard(time.Millisecond), 2, nodes, nil)
						defer closeLands(t, all)
						limit := headgate.MustParseLimit(text)
						untilWindow(before)
						for _, g := range all[0].nodes {
							takeRegion(t, g, "k", limit, 100/nodes)
						}
						time.Sleep(before + 4*time.Second)
						for _, g := range all[0].nodes {
							takeRegion(t, g, "k", limit, takes)
						}
						time.Sleep(3 * time.Second)
						left := remaining(t, all[0].nodes[0], "k", limit)
						passed := takeRegion(t, all[1].nodes[0], "k", limit, 100)
						if diff := int64(passed) - left; diff < -1 || diff > 1 {
							t.Errorf("passed in a new region: got %d, want %d as the other has left, or one more or less", passed, left)
						}
					})
				})
			}
		}
	}
}

// The weight of these units falls in the other region as in the one that consumed them, and they have no effect on the
// next window.
func TestUnitsBeforeAWindowBeganFadeInOtherRegions(t *testing.T) {
	for _, before := range []time.Duration{6 * time.Second, 100 * time.Millisecond} {
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleettest.WaitForNextHour()
				all := startLands(t, fleettest.NewBoard(time.Millisecond), 2, 1, nil)
				defer closeLands(t, all)
				limit := headgate.MustParseLimit("100/m sliding-window")
				untilWindow(before)
				takeRegion(t, all[0].nodes[0], "k", limit, 100)
				time.Sleep(before + 4*time.Second)
				begin := time.Now().Truncate(time.Minute)
				takeRegion(t, all[1].nodes[0], "k", limit, 2)
				for at := 5 * time.Second; at < 2*time.Minute; at += 5 * time.Second {
					if at == time.Minute {
						continue // the last units are given back in the first round after the window has ended
					}
					time.Sleep(time.Until(begin.Add(at)))
					want, got := remaining(t, all[0].nodes[0], "k", limit), remaining(t, all[1].nodes[0], "k", limit)
					if got > want+2 || got < want-100/fadingSteps-2 {
						t.Errorf("remaining %v after the window began: got %d, want %d as in the other region", at, got, want)
					}
				}
			})
		})
	}
}

// Regions agree on what is left, whenever and wherever a key was used before.
func TestRegionsAgreeOnSlidingWindows(t *testing.T) {
	for seed := range uint64(40 / racing.Slower) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { useRegionsAtRandom(t, seed) }) })
	}
}

func useRegionsAtRandom(t *testing.T, seed uint64) {
	fleettest.WaitForNextHour()
	r := rand.New(rand.NewPCG(seed, 7))
	all := startLands(t, fleettest.NewBoard(time.Millisecond), 2+r.IntN(2), 1+r.IntN(2), nil)
	defer closeLands(t, all)
	limit := headgate.MustParseLimit("100/m sliding-window")
	for step := range 60 {
		time.Sleep(time.Duration(r.Int64N(int64(time.Second) << r.IntN(7))))
		nodes := all[r.IntN(len(all))].nodes
		takeRegion(t, nodes[r.IntN(len(nodes))], "k", limit, r.IntN(60))
		if r.IntN(3) > 0 {
			continue
		}
		time.Sleep(4 * time.Second)
		var left []int64
		for _, land := range all {
			g := land.nodes[r.IntN(len(land.nodes))]
			takeRegion(t, g, "k", limit, 1) // the first decision after a pause does not wait for other regions
			left = append(left, remaining(t, g, "k", limit))
		}
		if slices.Max(left)-slices.Min(left) > 100/fadingSteps+5 {
			t.Errorf("step %d at %s: regions have %v left, want about the same", step, time.Now().Format(time.TimeOnly), left)
		}
	}
}

// A node that was idle since the window began reports its last units of the window before, after the region's total was
// sent. The total does not change, but other regions must know them.
func TestRegionsSendUnitsOfTheWindowBeforeThatAreReportedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleettest.WaitForNextHour()
		all := startLands(t, fleettest.NewBoard(time.Millisecond), 2, 0, nil)
		defer closeLands(t, all)
		hour := time.Now().Truncate(time.Hour)
		until := func(seconds float64) { time.Sleep(time.Until(hour.Add(time.Duration(seconds * float64(time.Second))))) }
		board := fleettest.NewBoard(time.Millisecond)
		start := func(land *land, region, node string) *Limiter {
			g := startNode(t, board, land.store, land.totals, Options{
				Region: region, Node: node, Interval: 20 * time.Second, Rand: func(int64) int64 { return 0 },
			})
			land.nodes = append(land.nodes, g)
			return g
		}
		limit := headgate.MustParseLimit("100/m sliding-window")
		sender := start(all[0], "here", "sender") // exchanges every 5 seconds: at 6, 11, …, 56, 61
		until(3)
		late := start(all[0], "here", "late") // at 8, 13, …, 58, 63
		other := start(all[1], "there", "other")
		until(50)
		takeRegion(t, sender, "k", limit, 1)
		until(59)
		takeRegion(t, late, "k", limit, 90)
		until(60.5)
		takeRegion(t, sender, "k", limit, 1)
		until(80) // the sender repeats a key in every second exchange
		synctest.Wait()
		takeRegion(t, other, "k", limit, 2)
		want, got := remaining(t, sender, "k", limit)-2, remaining(t, other, "k", limit)
		if got < want-2 || got > want+2 {
			t.Errorf("remaining in the other region: got %d, want %d as here without its units", got, want)
		}
	})
}
