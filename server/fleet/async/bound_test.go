package async

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestAsyncStaysWithinItsBound(t *testing.T) {
	for _, tt := range []struct {
		times    int // the limit
		burst    int64
		delay    time.Duration
		interval time.Duration
	}{
		{times: 2, burst: 1000, delay: 5 * time.Millisecond},
		{times: 10, burst: 1000, delay: 5 * time.Millisecond},
		{times: 3, burst: 100, delay: time.Millisecond},
		{times: 5, burst: 1000, delay: 100 * time.Millisecond, interval: 5 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d times, burst %d, interval %v", tt.times, tt.burst, tt.interval), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes, rate = 4, 1000
				length := 60 * time.Second
				if racing.Enabled { // it makes everything slow, and has nothing to find in the second half minute
					length = 5 * time.Second
				}
				limit := headgate.Limit{Count: rate, Period: time.Second, Burst: tt.burst}
				interval := tt.interval
				if interval == 0 {
					interval = DefaultInterval
				}
				all := startAsync(t, nodes, fleettest.NewBoard(tt.delay), func(_ *fleet.LedgerOptions, o *Options) { o.Interval = tt.interval })
				j := &fleettest.Meter{Burst: float64(tt.burst), Rate: rate, Within: interval + 2*tt.delay}
				rng := rand.New(rand.NewPCG(3, uint64(tt.times)))
				start := time.Now()
				for at := time.Duration(0); at < length; at += time.Millisecond {
					time.Sleep(time.Until(start.Add(at)))
					j.Advance(at)
					n := fleettest.Poisson(rng, float64(tt.times*rate)/1000)
					j.Arrivals = append(j.Arrivals, n)
					for range n {
						d, err := all[rng.IntN(nodes)].Take(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 1})
						if err != nil {
							t.Fatal(err)
						}
						if d.Allowed {
							j.Pass(1)
						}
					}
				}
				most := float64(tt.burst) + rate*length.Seconds()
				stats := all[0].Stats()
				t.Logf("passed %d of %.0f (%+.3f %%), at most %.0f over at a time, bound %.0f; one node: lag %v, over %d, at most %d, %d exchanges",
					j.Passed, most, 100*(float64(j.Passed)/most-1), j.Over, j.Bound(nodes), stats.Lag, stats.Over, stats.OverMax, stats.Exchanges)
				if j.Over > j.Bound(nodes) {
					t.Errorf("over at a time: got %.0f, want at most %.0f", j.Over, j.Bound(nodes))
				}
				if tt.interval == 0 && length == time.Minute && float64(j.Passed) > 1.005*most {
					t.Errorf("passed in all: got %d, want at most %.0f and 0.5 %%", j.Passed, most)
				}
				if tt.interval == 0 && float64(j.Passed) < 0.99*most {
					t.Errorf("passed in all: got %d, want 99 %% of %.0f", j.Passed, most)
				}
				// The debt is repaid, and then all is as new.
				time.Sleep(interval + time.Duration(j.Bound(nodes)/rate*float64(time.Second)) + time.Duration(tt.burst)*time.Millisecond)
				for i, a := range all {
					d, err := a.Peek(context.Background(), headgate.Check{Key: "k", Limit: limit})
					if err != nil || d.Remaining != tt.burst {
						t.Errorf("node %d after a rest: got %d left, %v, want %d", i, d.Remaining, err, tt.burst)
					}
				}
				closeAsync(t, all...)
			})
		})
	}
}
