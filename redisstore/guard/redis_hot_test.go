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
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func TestDeniedHotKeyHardlyCallsTheServer(t *testing.T) {
	t.Run("for long", func(t *testing.T) { testHotKey(t, "5/h", 2200*time.Millisecond, nil) })
	t.Run("for a moment", func(t *testing.T) { testHotKey(t, "10/s burst 5", time.Second, nil) })
}

// TestSoakDeniedHotKeyIsQuick needs a quiet machine. In virtual time other tests count the calls exactly.
func TestSoakDeniedHotKeyIsQuick(t *testing.T) {
	soak(t)
	t.Run("for long", func(t *testing.T) {
		testHotKey(t, "5/h", 2200*time.Millisecond, func(h *hotKey) { h.checkQuick(t, guard.DefaultDenyCache) })
	})
	t.Run("for a moment", func(t *testing.T) {
		testHotKey(t, "10/s burst 5", time.Second, func(h *hotKey) { h.checkQuick(t, time.Second/10) })
	})
}

// testHotKey has a thousand callers on each of two nodes ask for a denied client. Its denial expires from time to time.
func testHotKey(t *testing.T, limit string, lasting time.Duration, check func(*hotKey)) {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	c := headgate.Check{Key: "hot " + limit, Limit: headgate.MustParseLimit(limit), Cost: 1}
	const callers = 1000
	var guards [hotNodes]*guard.Guard
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
	began := time.Now()
	hot := askHotKey(t, server, guards[:], callers, c, lasting)
	hot.elapsed = time.Since(began)
	t.Logf("%v: %v", hot.elapsed, hot)
	hot.refill = float64(c.Limit.Count) / c.Limit.Period.Seconds()
	if most := int64(time.Since(denied).Seconds()*hot.refill) + 1; hot.allowed > most {
		t.Errorf("%d allowed in %v, want at most %d", hot.allowed, time.Since(denied), most)
	}
	if hot.calls > hot.allowed+hot.asked/10 {
		t.Errorf("%d calls of the server for %d requests, want hardly more than the %d allowed", hot.calls, hot.asked, hot.allowed)
	}
	if check != nil {
		check(hot)
	}
}

// hotNodes is how many nodes ask for a hot key.
const hotNodes = 2

// checkQuick checks what holds on a quiet machine, for a denial that expires at an interval.
func (h *hotKey) checkQuick(t *testing.T, every time.Duration) {
	t.Helper()
	if least := int64(h.elapsed.Seconds() * h.refill / 2); h.allowed < least {
		t.Errorf("%d allowed in %v, want at least %d", h.allowed, h.elapsed, least)
	}
	// An interval may have begun before, and the last may not have ended.
	if most := h.allowed + 2*hotNodes*(int64(h.elapsed/every)+2); h.calls > most {
		t.Errorf("%d calls of the server for %d allowed, want at most 2 more for each node every %v: %d",
			h.calls, h.allowed, every, most)
	}
	longest := 100 * time.Microsecond
	if racing.Enabled {
		longest = 2 * time.Millisecond
	}
	if h.p95 > longest {
		t.Errorf("p95 of a denial from memory is %v, want at most %v", h.p95, longest)
	}
}

// hotKey is what came of asking for one.
type hotKey struct {
	asked, allowed int64
	cached, waited int64 // of the denials: from memory, and those that waited for the server to be asked
	calls          int64 // of the server
	elapsed        time.Duration
	refill         float64 // units per second
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
