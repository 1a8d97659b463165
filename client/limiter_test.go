package client

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// Every step is a call, and for each of some hundred cases a service is started.
var suite = limittest.Options{Steps: 20, Goroutines: 100}

// raceTested says why the suite is left out when the race detector makes it too slow.
const raceTested = "the suite is one of answers; that many goroutines ask at once is tested by TestCallsTravelTogetherAndNoneIsLost"

func TestTheStoreOfAServiceIsALimiter(t *testing.T) {
	if racing {
		t.Skip(raceTested)
	}
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		return newHost(t, now, grpcapi.Config{}).client(Options{}).Store()
	}, suite)
}

func TestTheGuardedStoreOfAServiceIsALimiter(t *testing.T) {
	if racing {
		t.Skip(raceTested)
	}
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		h := newHost(t, now, grpcapi.Config{Parallel: 8})
		g, err := h.client(Options{}).Limiter(guard.Options{Deadline: patience, DenyCache: -1, Local: h.store, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		return g
	}, suite)
}
