package guard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/guard"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// A client who is denied and does not listen, with a thousand callers on each of two nodes.
func TestAHotKeyThatIsDeniedCostsTheServerNextToNothing(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	for _, test := range []struct {
		limit string
		every time.Duration // in which a denial runs out
	}{
		{"5/h", guard.DefaultDenyCache},
		{"10/s burst 5", time.Second / 10},
	} {
		t.Run(test.limit, func(t *testing.T) {
			c := headgate.Check{Key: "hot " + test.limit, Limit: headgate.MustParseLimit(test.limit), Cost: 1}
			const nodes, callers = 2, 1000
			var guards [nodes]*guard.Guard
			for i := range guards {
				store := openStore(t, server.URL(), redisstore.Options{})
				mustTake(t, store, headgate.Check{Key: "warm", Limit: c.Limit, Cost: 1})
				guards[i] = newGuard(t, store, guard.Options{Deadline: patient})
			}
			server.ResetStats()
			lasting := 2500 * time.Millisecond
			if soaks() {
				lasting = 30 * time.Second
			}
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
			intervals := int64(elapsed/test.every) + 1
			var cached, ungated int64
			for _, g := range guards {
				s := g.Stats()
				cached, ungated = cached+s.CacheHits, ungated+s.Ungated
			}
			calls := decided(server)
			t.Logf("%d asked in %v, %d allowed, %d denied from memory, %d calls of the server, %d ungated; denials: %v",
				asked.Load(), elapsed, allowed.Load(), cached, calls, ungated, &denials)
			if most := allowed.Load() + 2*nodes*intervals; calls > most {
				t.Errorf("%d calls of the server for %d allowed, want at most 2 for each node every %v more: %d", calls, allowed.Load(), test.every, most)
			}
			bound := c.Limit.Capacity() + int64(elapsed.Seconds()/c.Limit.Period.Seconds()*float64(c.Limit.Count))
			if got := allowed.Load(); got > bound || float64(got) < 0.7*float64(bound) {
				t.Errorf("%d allowed in %v, want about %d and no more", got, elapsed, bound)
			}
			// On a quiet machine it is a tenth of that.
			short := 50 * time.Microsecond
			if raceDetected {
				short = time.Millisecond
			}
			if got := denials.at(0.95); got > short {
				t.Errorf("p95 of a denial is %v, want at most %v", got, short)
			}
		})
	}
}
