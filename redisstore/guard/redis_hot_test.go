package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/attempts"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func TestAHotKeyThatIsDeniedCostsTheServerNextToNothing(t *testing.T) {
	t.Run("for long", func(t *testing.T) { testHotKey(t, "5/h", guard.DefaultDenyCache, 2200*time.Millisecond) })
	t.Run("for a moment", func(t *testing.T) { testHotKey(t, "10/s burst 5", time.Second/10, time.Second) })
}

// testHotKey has a thousand callers on each of two nodes ask for a denied client. Its denial expires from time to time.
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
	var denied time.Time // less than one unit was left then
	for _, g := range guards {
		await.NoError(t, "not so yet", func() error {
			denied = time.Now()
			if d := mustTake(t, g, c); d.Allowed {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
	var passed int64 // in all attempts
	attempts.OneOf(t, 5, func() error {
		began := time.Now()
		hot := askHotKey(t, server, guards[:], callers, c, lasting)
		elapsed := time.Since(began)
		t.Logf("%v: %v", elapsed, hot)
		passed += hot.allowed
		refill := float64(c.Limit.Count) / c.Limit.Period.Seconds()
		if most := int64(time.Since(denied).Seconds()*refill) + 1; passed > most {
			t.Errorf("%d allowed in %v, want at most %d", passed, time.Since(denied), most)
		}
		var errs []error
		if least := int64(elapsed.Seconds() * refill / 2); hot.allowed < least {
			errs = append(errs, fmt.Errorf("%d allowed in %v, want at least %d", hot.allowed, elapsed, least))
		}
		// An interval may have begun before, and the last is not over. In virtual time the bound is tested to the call.
		if most := hot.allowed + 2*nodes*(int64(elapsed/every)+2); hot.calls > most {
			errs = append(errs, fmt.Errorf("%d calls of the server for %d allowed, want at most 2 for each node every %v more: %d", hot.calls, hot.allowed, every, most))
		}
		// On a quiet machine p99 is below 5 µs.
		short := 100 * time.Microsecond
		if raceDetected {
			short = 2 * time.Millisecond
		}
		if hot.p95 > short {
			errs = append(errs, fmt.Errorf("p95 of a denial from memory is %v, want at most %v", hot.p95, short))
		}
		return errors.Join(errs...)
	})
}

// hotKey is what came of asking for one.
type hotKey struct {
	asked, allowed int64
	cached, waited int64 // of the denials: from memory, and those that waited for the server to be asked
	calls          int64 // of the server
	p50, p95, p99  time.Duration
	denials        histogram
}

func (h *hotKey) String() string {
	return fmt.Sprintf("%d asked, %d allowed, %d denied from memory, %d waited, %d calls of the server; denials from memory: p50 %v, p95 %v, p99 %v; all: %v",
		h.asked, h.allowed, h.cached, h.waited, h.calls, h.p50, h.p95, h.p99, &h.denials)
}

// askHotKey lets so many callers of each guard ask for a while.
func askHotKey(t *testing.T, server *redistest.Server, guards []*guard.Guard, callers int, c headgate.Check, lasting time.Duration) *hotKey {
	t.Helper()
	h := new(hotKey)
	for _, g := range guards {
		s := g.Stats()
		h.cached, h.waited = h.cached-s.CacheHits, h.waited-s.Waits
	}
	server.ResetStats()
	var group sync.WaitGroup
	var asked, allowed atomic.Int64
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
						h.denials.add(took)
					}
					time.Sleep(40 * time.Millisecond)
				}
			})
		}
	}
	group.Wait()
	h.asked, h.allowed, h.calls = asked.Load(), allowed.Load(), decided(server)
	for _, g := range guards {
		s := g.Stats()
		h.cached, h.waited = h.cached+s.CacheHits, h.waited+s.Waits
	}
	// The quantiles are those of who did not wait.
	n := float64(h.denials.count())
	at := func(share float64) time.Duration { return h.denials.at(share * max(0, n-float64(h.waited)) / n) }
	h.p50, h.p95, h.p99 = at(0.5), at(0.95), at(0.99)
	return h
}
