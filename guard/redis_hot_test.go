package guard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/guard"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

func TestAHotKeyThatIsDeniedCostsTheServerNextToNothing(t *testing.T) {
	t.Run("for long", func(t *testing.T) { testHotKey(t, "5/h", guard.DefaultDenyCache, 2200*time.Millisecond) })
	t.Run("for a moment", func(t *testing.T) { testHotKey(t, "10/s burst 5", time.Second/10, time.Second) })
}

// testHotKey has a thousand callers on each of two nodes ask for a client who is denied. His denial runs out every so often.
func testHotKey(t *testing.T, limit string, every, lasting time.Duration) {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	c := headgate.Check{Key: "hot " + limit, Limit: headgate.MustParseLimit(limit), Cost: 1}
	const nodes, callers = 2, 1000
	var guards [nodes]*guard.Guard
	for i := range guards {
		store := openStore(t, server.URL(), redisstore.Options{})
		mustTake(t, store, headgate.Check{Key: "warm", Limit: c.Limit, Cost: 1})
		guards[i] = newGuard(t, store, guard.Options{Deadline: patient})
	}
	// It has been denied on both nodes. Before that each of them lets as many calls through as could pass.
	for _, g := range guards {
		eventually(t, 10*time.Second, func() error {
			if d := mustTake(t, g, c); d.Allowed {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
	server.ResetStats()
	var (
		group          sync.WaitGroup
		asked, allowed atomic.Int64
		denials        histogram
	)
	began := time.Now()
	for _, g := range guards {
		for range callers {
			group.Go(func() {
				for time.Since(began) < lasting {
					before := time.Now()
					d, err := g.Take(context.Background(), c)
					took := time.Since(before)
					asked.Add(1)
					switch {
					case err != nil || d.Degraded:
						t.Errorf("%+v, %v", d, err)
					case d.Allowed:
						allowed.Add(1)
					default:
						denials.add(took)
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}
	group.Wait()
	elapsed := time.Since(began)
	intervals := int64(elapsed/every) + 1
	var cached, waits int64
	for _, g := range guards {
		s := g.Stats()
		cached, waits = cached+s.CacheHits, waits+s.Waits
	}
	calls := decided(server)
	// Some have waited while the server was asked. These are the quantiles of the others:
	at := func(share float64) time.Duration {
		return denials.at(share * float64(denials.count()-waits) / float64(denials.count()))
	}
	t.Logf("%d asked in %v, %d allowed, %d denied from memory, %d waited, %d calls of the server; denials from memory: p50 %v, p95 %v, p99 %v; all: %v",
		asked.Load(), elapsed, allowed.Load(), cached, waits, calls, at(0.5), at(0.95), at(0.99), &denials)
	if most := allowed.Load() + 2*nodes*intervals; calls > most {
		t.Errorf("%d calls of the server for %d allowed, want at most 2 for each node every %v more: %d", calls, allowed.Load(), every, most)
	}
	refilled := int64(elapsed.Seconds()/c.Limit.Period.Seconds()*float64(c.Limit.Count)) + 1
	if got := allowed.Load(); got > refilled || got < refilled/2 {
		t.Errorf("%d allowed in %v, want about %d and no more", got, elapsed, refilled)
	}
	// On a quiet machine p99 is below 5 µs.
	short := 50 * time.Microsecond
	if raceDetected {
		short = time.Millisecond
	}
	if got := at(0.95); got > short {
		t.Errorf("p95 of a denial from memory is %v, want at most %v", got, short)
	}
}
