package async

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// Whatever each node admits, and however long the exchange is unreachable or nobody asks: a few intervals later all
// nodes have the same left, and none has refused what another consumed.
func TestNodesAgreeAfterOutages(t *testing.T) {
	for seed := range uint64(90 / racing.Slower) {
		random := rand.New(rand.NewPCG(seed, 99))
		count, period := 2+random.Int64N(100), time.Duration(1+random.IntN(20))*time.Second
		limit := []headgate.Limit{
			{Algorithm: headgate.FixedWindow, Count: count, Period: period},
			{Algorithm: headgate.SlidingWindow, Count: count, Period: period},
			{Count: count, Period: time.Second, Burst: 5 + random.Int64N(100)},
		}[seed%3]
		t.Run(fmt.Sprintf("seed %d, %v", seed, limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { agreeAfterOutages(t, random, limit) })
		})
	}
}

func agreeAfterOutages(t *testing.T, random *rand.Rand, limit headgate.Limit) {
	fleettest.WaitForNextHour()
	time.Sleep(time.Duration(random.IntN(60_000)) * time.Millisecond)
	board := fleettest.NewBoard(time.Duration(1+random.IntN(10)) * time.Millisecond)
	all := startAsync(t, 2+random.IntN(4), board, func(_ *fleet.LedgerOptions, o *Options) {
		o.OnEvent = func(fleet.Event) {} // there are some about each outage
	})
	defer closeAsync(t, all...)
	var rates []float64 // of each node
	for range all {
		rates = append(rates, []float64{0, 0.1, 0.5, 0.9, 3}[random.IntN(5)]*float64(limit.Count)/limit.Period.Seconds())
	}
	load := func(most time.Duration) {
		for end := time.Now().Add(time.Duration(random.Int64N(int64(most)))); time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
			for i, a := range all {
				takeAsync(t, a, "k", limit, fleettest.Poisson(random, rates[i]*0.005))
			}
		}
	}
	load(8 * time.Second)
	for range random.IntN(3) {
		if random.IntN(2) == 0 {
			board.SetDown(true)
			load(8 * time.Second)
			board.SetDown(false)
		} else {
			time.Sleep(time.Duration(random.Int64N(int64(8 * time.Second))))
		}
		load(4 * time.Second)
	}
	var left []int64
	for range 3 {
		left = left[:0]
		for _, a := range all {
			d, err := a.Peek(t.Context(), headgate.Check{Key: "k", Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, d.Remaining)
		}
		time.Sleep(4 * DefaultInterval)
	}
	if slices.Max(left)-slices.Min(left) > 2 {
		t.Errorf("remaining on the nodes: got %v, want a difference of at most 2", left)
	}
}
