package guard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/guard"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// What a decision adds to a request when as many come as half of what guard and server can do.
func TestADecisionAtHalfLoadIsQuick(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	store := openStore(t, server.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	const callers, keys = 64, 10_000
	checks := make([]headgate.Check, keys)
	for i := range checks {
		checks[i] = headgate.Check{Key: fmt.Sprint("client", i), Limit: headgate.PerSecond(1_000_000), Cost: 1}
	}
	mustTake(t, g, checks[0])
	take := func() {
		if d, err := g.Take(context.Background(), checks[rand.IntN(keys)]); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	}
	lasting := 1500 * time.Millisecond
	if soaks() {
		lasting = 20 * time.Second
	}

	var all sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < lasting {
				take()
				done.Add(1)
			}
		})
	}
	all.Wait()
	most := float64(done.Load()) / time.Since(began).Seconds()

	// Requests come when they come, whether or not those before are done: who is late counts from when he was due. But that
	// a timer is late is not held against the decision.
	var times histogram
	gap := float64(callers) / (most / 2) * float64(time.Second)
	began = time.Now()
	for range callers {
		all.Go(func() {
			due := began
			for {
				due = due.Add(time.Duration(rand.ExpFloat64() * gap))
				if due.Sub(began) > lasting {
					return
				}
				from := due
				if wait := time.Until(due); wait > 0 {
					time.Sleep(wait)
					from = time.Now()
				}
				take()
				times.add(time.Since(from))
			}
		})
	}
	all.Wait()
	t.Logf("at most %.0f/s; at %.0f/s: %v", most, float64(times.count())/lasting.Seconds(), &times)
	// On a quiet machine p99 is below 2 ms.
	if got, most := times.at(0.5), 5*time.Millisecond; got > most {
		t.Errorf("p50 is %v, want at most %v", got, most)
	}
	if got, most := times.at(0.99), 50*time.Millisecond; got > most {
		t.Errorf("p99 is %v, want at most %v", got, most)
	}
}
