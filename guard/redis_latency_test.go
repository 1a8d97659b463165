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

func TestADecisionAtHalfLoadIsQuick(t *testing.T) { testHalfLoad(t, 300*time.Millisecond) }

// testHalfLoad measures what a decision adds to a request when half as many come as guard and server can do.
func testHalfLoad(t *testing.T, lasting time.Duration) {
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
		if d, err := g.Take(context.Background(), checks[rand.IntN(keys)]); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	}
	// On a quiet machine it is below 2 ms.
	short := 20 * time.Millisecond
	if raceDetected {
		short = 200 * time.Millisecond
	}
	// Others have work for this machine too, and what is asked meanwhile waits. So there are several windows, and the best
	// counts.
	var all histogram
	best, most := time.Hour, 0.0
	for window := 0; window < 4 || best > short && window < 24; window++ {
		possible := throughput(callers, lasting/2, take)
		h := offer(callers, possible/2, lasting, take)
		all.merge(h)
		if p99 := h.at(0.99); p99 < best {
			best, most = p99, possible
		}
	}
	t.Logf("at half load: %v; in the best window p99 %v at half of %.0f/s", &all, best, most)
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

// offer lets so many requests a second come by chance, and returns how long their decisions took. They come whether or not
// those before are done: one that had to wait counts from when it was due. That a timer is late is not held against it.
func offer(callers int, rate float64, lasting time.Duration, take func()) *histogram {
	var group sync.WaitGroup
	times := new(histogram)
	gap := float64(callers) / rate * float64(time.Second)
	began := time.Now()
	for range callers {
		group.Go(func() {
			for due := began; ; {
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
	group.Wait()
	return times
}
