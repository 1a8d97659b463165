package limiters

import (
	"context"

	"github.com/headgate/headgate/bench/harness"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

func throttledEntry() Entry {
	return Entry{
		Name: "throttled", Title: "throttled, memstore", Module: "github.com/throttled/throttled/v2", Role: harness.Peer, KeepsKeys: true,
		Make: newThrottled,
	}
}

type throttledLimiter struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(q Quota, _ int) (Limiter, error) {
	store, err := memstore.NewCtx(0) // a plain map, which is faster than its LRU and evicts nothing
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(q.Count, q.Period),
		MaxBurst: q.Count - 1, // beyond the first
	})
	if err != nil {
		return nil, err
	}
	return throttledLimiter{limiter}, nil
}

func (t throttledLimiter) Allow(key string) bool {
	limited, _, err := t.limiter.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}
