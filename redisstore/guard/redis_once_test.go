package guard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func TestCallWithoutAResponseIsNeverResent(t *testing.T) { testOnce(t, 8) }

// testOnce breaks so many rounds of calls. A call that timed out may have counted: were it sent again it would count
// twice.
func testOnce(t *testing.T, rounds int) {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	store := openStore(t, "redis://"+proxy.Addr(), redisstore.Options{})
	direct := openStore(t, server.URL(), redisstore.Options{})
	limit := headgate.MustParseLimit("10/d")
	const late = 2 * guard.DefaultDeadline // each way
	var cutting sync.WaitGroup
	for what, fault := range map[string]struct{ begin, end func() }{
		"late": {func() { proxy.SetDelay(late) }, func() { proxy.SetDelay(0) }},
		"hung": {server.Pause, server.Resume},
		"broken": {
			func() {
				proxy.SetDelay(late / 4)
				cutting.Go(func() {
					time.Sleep(late / 3)
					proxy.Cut()
				})
			},
			func() {
				cutting.Wait()
				proxy.SetDelay(0)
				proxy.Heal()
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			mustTake(t, direct, headgate.Check{Key: "warm", Limit: limit, Cost: 1}) // the server knows the script
			mustTake(t, store, headgate.Check{Key: "warm", Limit: limit, Cost: 1})
			server.ResetStats()
			var asked, degraded atomic.Int64
			var checks []headgate.Check
			// A guard gives up after a few failures, so there are many of them, each for a moment.
			const callers = 8
			for round := range rounds {
				g := newGuard(t, store, guard.Options{})
				var group sync.WaitGroup
				for caller := range callers {
					// All callers of a round ask for one key each, and half of them for one more that they share.
					own := headgate.Check{Key: fmt.Sprint(what, round, caller), Limit: limit, Cost: 1}
					shared := headgate.Check{Key: fmt.Sprint(what, round, "shared"), Limit: limit, Cost: 1}
					checks = append(checks, own)
					group.Go(func() {
						for _, c := range []headgate.Check{own, shared}[:1+caller%2] {
							asked.Add(1)
							d, err := g.Take(context.Background(), c)
							if err != nil {
								t.Error(err)
							}
							if d.Degraded {
								degraded.Add(1)
							}
						}
					})
					if caller == 0 {
						fault.begin()
					}
				}
				group.Wait()
				_ = g.Close()
				fault.end()
				await.NoError(t, "not so yet", func() error { return store.Probe(t.Context(), proxy.Addr()) })
			}
			// What is still on its way gets there.
			time.Sleep(4 * late)
			n := decided(server)
			t.Logf("%d takes, %d of them degraded, %d calls on the server", asked.Load(), degraded.Load(), n)
			if n > asked.Load() || n == 0 {
				t.Errorf("%d calls on the server for %d takes, want some and at most one each", n, asked.Load())
			}
			if degraded.Load() < int64(rounds) {
				t.Errorf("%d of the takes are degraded, want many", degraded.Load())
			}
			for _, c := range checks {
				c.Cost = 0
				if d := mustTake(t, direct, c); d.Remaining < d.Limit-1 {
					t.Errorf("%s: %d of %d remain after one take", c.Key, d.Remaining, d.Limit)
				}
			}
		})
	}
}
