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
	"github.com/headgate/headgate/internal/arrivals"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// What a decision adds on a machine that is quiet is measured by bench.
func TestADecisionAtHalfLoadIsQuick(t *testing.T) { testHalfLoad(t, 24) }

// testHalfLoad measures what a decision adds to a request when half as many come as guard and server can do.
func testHalfLoad(t *testing.T, windows int) {
	t.Helper()
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
	// On a quiet machine it is below 2 ms.
	short := 20 * time.Millisecond
	if raceDetected {
		short = 200 * time.Millisecond
	}
	// Others have work for this machine too, and even one that is idle stands still for milliseconds some times a second:
	// what is asked meanwhile waits. So there are many short windows, one of which must do.
	const lasting, windowsPerPhase = 50 * time.Millisecond, 3
	best, possible := time.Duration(0), 0.0
	for window := 0; window < windows || best > short && window < 4*windows; window++ {
		if window%windowsPerPhase == 0 {
			possible = throughput(callers, lasting, take)
		}
		took, err := arrivals.Offer(possible/2, lasting, take)
		if err != nil {
			t.Fatal(err)
		}
		if p99 := arrivals.Quantile(took, 0.99); window == 0 || p99 < best {
			best = p99
		}
	}
	t.Logf("at half load, lately of %.0f/s: p99 %v in the best window", possible, best)
	if best > short {
		t.Errorf("p99 is %v in the best window, want at most %v", best, short)
	}
}

// throughput returns how many decisions a second so many callers get who ask without a pause.
func throughput(callers int, lasting time.Duration, take func()) float64 {
	var (
		group sync.WaitGroup
		done  atomic.Int64
	)
	began := time.Now()
	for range callers {
		group.Go(func() {
			for time.Since(began) < lasting {
				take()
				done.Add(1)
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
