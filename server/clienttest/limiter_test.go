package clienttest

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// suite is small because each step is a call, and each of about a hundred cases starts a service.
func suite() limittest.Options {
	if testing.Short() {
		return limittest.Options{Steps: 20, Goroutines: 10}
	}
	return limittest.Options{Steps: 20, Goroutines: 100}
}

// tooSlow is why the suite is skipped with the race detector.
const tooSlow = "too slow with the race detector; TestConcurrentCallsAreBatchedAndAllCounted looks for races"

func TestStoreIsALimiter(t *testing.T) {
	racing.Skip(t, tooSlow)
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		return newHost(t, now, grpcapi.Config{}).client(client.Options{}).Store()
	}, suite())
}

func TestGuardedStoreIsALimiter(t *testing.T) {
	racing.Skip(t, tooSlow)
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		h := newHost(t, now, grpcapi.Config{Parallel: 8})
		g, err := h.client(client.Options{}).Limiter(guard.Options{Deadline: patience, DenyCache: -1, Local: h.store, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		return g
	}, suite())
}
