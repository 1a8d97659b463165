package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

// clockLimits are one of each kind, of a period that is short beside the minute that clocks are apart.
var clockLimits = []string{
	"10/2s", "10/2s gcra", "10/2s leaky-bucket", "10/2s fixed-window", "10/2s sliding-log", "10/2s sliding-window",
	"10/2s sliding-buckets 4", "10 concurrent ttl 2s",
}

// TestTheNewPrimarysClockIsBehindOrAhead fails over to a server whose clock is a minute off. Nobody is locked out for
// longer than the limit's own period (two of them where the period before weighs in), and no more passes than one burst
// extra.
func TestTheNewPrimarysClockIsBehindOrAhead(t *testing.T) {
	for _, off := range []time.Duration{-time.Minute, time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			set := redistest.Sentinel(t, redistest.SentinelOptions{Clocks: []time.Duration{0, off, off}})
			s := open(t, set.URL(), Options{Secret: testSecret})
			const capacity, period = 10, 2 * time.Second
			exhaust := func(text string) (passed int64) {
				c := headgate.Check{Key: "client under " + text, Limit: headgate.MustParseLimit(text), Cost: 1}
				for range 10 * capacity {
					if d := mustTake(t, s, c); d.Allowed {
						passed++
					}
				}
				return passed
			}
			start := time.Now()
			passed := map[string]int64{}
			for _, text := range clockLimits {
				passed[text] = exhaust(text)
			}
			set.Failover()
			waitUntilWritable(t, s)
			for _, text := range clockLimits {
				passed[text] += exhaust(text)
				units := float64(time.Since(start)) / float64(period) * capacity
				// The burst, what time gives, one burst more; a window that has just begun gives its Count at once.
				if most := capacity + units + capacity + capacity; float64(passed[text]) > most {
					t.Errorf("%s: %d passed in %s, want at most %.0f", text, passed[text], time.Since(start), most)
				}
			}
			exhausted := time.Now()
			for _, text := range clockLimits {
				allowed := 2*period + 20*time.Second // of which a busy machine may need most
				for c := (headgate.Check{Key: "client under " + text, Limit: headgate.MustParseLimit(text), Cost: 1}); ; {
					d := mustTake(t, s, c)
					if d.Allowed {
						break
					}
					if d.RetryAfter > 2*period {
						t.Errorf("%s: to come back in %s, want no more than two periods", text, d.RetryAfter)
						break
					}
					if time.Since(exhausted) > allowed {
						t.Errorf("%s: locked out for %s", text, time.Since(exhausted))
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
}

// waitUntilWritable waits until decisions can be made.
func waitUntilWritable(t *testing.T, s *Store) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := s.Take(ctx, headgate.Check{Key: fmt.Sprint("ready", i), Limit: headgate.PerHour(1), Cost: 1})
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no decision after the failover: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
