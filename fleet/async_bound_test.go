package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// A judge counts what a fleet lets pass, and how far that is above a limit: by a bucket that all pass through, whose debt
// has no bottom.
type judge struct {
	burst, rate float64 // per second
	level, over float64
	passed      int
	last        time.Duration

	within   time.Duration // the λ is over any such time
	arrivals []int         // in each millisecond
}

func (j *judge) at(now time.Duration) {
	j.level = max(0, j.level-j.rate*(now-j.last).Seconds())
	j.last = now
}

func (j *judge) pass(n int) {
	j.passed += n
	j.level += float64(n)
	j.over = max(j.over, j.level-j.burst)
}

// peak returns the most that arrived within any S, a second.
func (j *judge) peak() float64 {
	width := int((j.within + time.Millisecond - 1) / time.Millisecond)
	sum, most := 0, 0
	for i, n := range j.arrivals {
		sum += n
		if i >= width {
			sum -= j.arrivals[i-width]
		}
		most = max(most, sum)
	}
	return float64(most) / (float64(width) / 1000)
}

// bound returns what may be over at any time.
func (j *judge) bound(nodes int) float64 {
	s := j.within.Seconds()
	return min(float64(nodes-1)*(j.burst+j.rate*s), (j.peak()-j.rate)*s)
}

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
				if leaseRaceDetected { // it makes everything slow, and has nothing to find in the second half minute
					length = 5 * time.Second
				}
				limit := headgate.Limit{Count: rate, Period: time.Second, Burst: tt.burst}
				interval := tt.interval
				if interval == 0 {
					interval = DefaultAsyncInterval
				}
				all := startAsync(t, nodes, newSlate(tt.delay), func(_ *LedgerOptions, o *AsyncOptions) { o.Interval = tt.interval })
				j := &judge{burst: float64(tt.burst), rate: rate, within: interval + 2*tt.delay}
				rng := rand.New(rand.NewPCG(3, uint64(tt.times)))
				start := time.Now()
				for at := time.Duration(0); at < length; at += time.Millisecond {
					time.Sleep(time.Until(start.Add(at)))
					j.at(at)
					n := poisson(rng, float64(tt.times*rate)/1000)
					j.arrivals = append(j.arrivals, n)
					for range n {
						d, err := all[rng.IntN(nodes)].Take(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 1})
						if err != nil {
							t.Fatal(err)
						}
						if d.Allowed {
							j.pass(1)
						}
					}
				}
				most := float64(tt.burst) + rate*length.Seconds()
				stats := all[0].Stats()
				t.Logf("passed %d of %.0f (%+.3f %%), at most %.0f over at a time, bound %.0f; one node: lag %v, over %d, at most %d, %d exchanges",
					j.passed, most, 100*(float64(j.passed)/most-1), j.over, j.bound(nodes), stats.Lag, stats.Over, stats.OverMax, stats.Exchanges)
				if j.over > j.bound(nodes) {
					t.Errorf("over at a time: got %.0f, want at most %.0f", j.over, j.bound(nodes))
				}
				if tt.interval == 0 && length == time.Minute && float64(j.passed) > 1.005*most {
					t.Errorf("passed in all: got %d, want at most %.0f and 0.5 %%", j.passed, most)
				}
				if tt.interval == 0 && float64(j.passed) < 0.99*most {
					t.Errorf("passed in all: got %d, want 99 %% of %.0f", j.passed, most)
				}
				// The debt is repaid, and then all is as new.
				time.Sleep(interval + time.Duration(j.bound(nodes)/rate*float64(time.Second)) + time.Duration(tt.burst)*time.Millisecond)
				for i, a := range all {
					d, err := a.Take(context.Background(), headgate.Check{Key: "k", Limit: limit})
					if err != nil || d.Remaining != tt.burst {
						t.Errorf("node %d after a rest: got %d left, %v, want %d", i, d.Remaining, err, tt.burst)
					}
				}
				closeAsync(t, all...)
			})
		})
	}
}

// poisson draws how many arrive when mean do.
func poisson(rng *rand.Rand, mean float64) int {
	n := 0
	for t := rng.ExpFloat64(); t < mean; t += rng.ExpFloat64() {
		n++
	}
	return n
}
