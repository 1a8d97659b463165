package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/redistest"
)

// A clockLimit is a limit that a client has exhausted before a failover to a server with another clock.
type clockLimit struct {
	text string
	// bursts is how many may pass at once when a burst has just passed and all is well: a window may be about to end.
	bursts int64
	// periods is for how many a client may be denied when all is well: where the period before weighs in, that is not over
	// when it ends.
	periods int
}

// clockLimits are one of each kind, of a period that is short beside the time that clocks are apart, and of one that is
// long.
var clockLimits = append(append(countingLimits("10/2s"), countingLimits("10/m")...), []clockLimit{
	{"10/2s", 1, 1},
	{"10/2s gcra", 1, 1},
	{"10/2s leaky-bucket", 1, 1},
	{"10/2s fixed-window", 2, 1},
	{"10/2s sliding-log", 1, 1},
	{"10/2s sliding-window", 2, 2},
	{"10/2s sliding-buckets 4", 2, 1},
	{"10 concurrent ttl 2s", 1, 1},
	{"10/m", 1, 1},
	{"10/m gcra", 1, 1},
	{"10/m leaky-bucket", 1, 1},
	{"10/m fixed-window", 2, 1},
	{"10/m sliding-log", 1, 1},
	{"10/m sliding-window", 2, 2},
	{"10/m sliding-buckets 4", 2, 1},
	{"10 concurrent ttl 1m", 1, 1},
}...)

// countingLimits returns a limit for each of the algorithms that declare what they promise.
func countingLimits(rate string) (limits []clockLimit) {
	for _, a := range headgate.Algorithms() {
		l := headgate.Limit{Algorithm: a, Count: 1, Period: time.Minute}
		if promise, ok := algorithm.PromiseOf(l); ok {
			limits = append(limits, clockLimit{
				text: rate + " " + a.String(), bursts: promise.Units, periods: int((promise.Memory + l.Period - 1) / l.Period),
			})
		}
	}
	return limits
}

func (l *clockLimit) check() headgate.Check {
	return headgate.Check{Key: "client under " + l.text, Limit: headgate.MustParseLimit(l.text), Cost: 1}
}

// period returns the time after which what was taken no longer counts.
func (l *clockLimit) period() time.Duration {
	if limit := headgate.MustParseLimit(l.text); limit.Algorithm != headgate.Concurrency {
		return limit.Period
	}
	return headgate.MustParseLimit(l.text).TTL
}

// TestNewPrimaryWithAnotherClock fails over to a server whose clock is off. Nobody is locked out for longer
// than the limit's own period, and no more passes than one burst extra.
func TestNewPrimaryWithAnotherClock(t *testing.T) {
	for _, off := range []time.Duration{-10 * time.Second, 10 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			set := redistest.Sentinel(t, redistest.SentinelOptions{Clocks: []time.Duration{0, off, off}})
			s := open(t, set.URL(), Options{Secret: testSecret})
			const capacity = 10
			exhaust := func(l *clockLimit) (passed int64) {
				for range 3 * capacity {
					if d := mustTake(t, s, l.check()); d.Allowed {
						passed++
					}
				}
				return passed
			}
			start := time.Now()
			passed := map[string]int64{}
			for _, l := range clockLimits {
				passed[l.text] = exhaust(&l)
			}
			set.AwaitReplicas() // or the new primary knows nothing that its clock could matter for
			set.Failover()
			waitUntilWritable(t, s)
			var excess, longest float64
			for _, l := range clockLimits {
				passed[l.text] += exhaust(&l)
				units := float64(time.Since(start)) / float64(l.period()) * capacity
				excess = max(excess, float64(passed[l.text])-float64(l.bursts*capacity)-units)
				if most := float64(l.bursts*capacity) + units + capacity; float64(passed[l.text]) > most {
					t.Errorf("%s: %d passed in %s, want at most %.0f", l.text, passed[l.text], time.Since(start), most)
				}
			}
			for _, l := range clockLimits {
				exhausted := time.Now()
				for {
					d := mustTake(t, s, l.check())
					if d.Allowed {
						break
					}
					longest = max(longest, float64(d.RetryAfter)/float64(l.period()))
					if most := time.Duration(l.periods) * l.period(); d.RetryAfter > most {
						t.Errorf("%s: to come back in %s, want at most %v", l.text, d.RetryAfter, most)
						break
					}
					if l.period() > 2*time.Second { // there is no time to see it
						break
					}
					if time.Since(exhausted) > time.Duration(l.periods)*l.period()+20*time.Second { // of which a busy machine may need most
						t.Errorf("%s: locked out for %s", l.text, time.Since(exhausted))
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			t.Logf("at most %.1f bursts beyond what passes with one clock, nobody to come back later than after %.2f periods", max(0, excess)/capacity, longest)
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
