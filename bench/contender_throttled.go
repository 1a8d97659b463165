package main

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

func throttledEntry() entry {
	return entry{
		name: "throttled", title: "throttled, memstore", module: "github.com/throttled/throttled/v2", role: peer, keepsKeys: true,
		make: newThrottled,
	}
}

type throttledLimiter struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(q quota, _ int) (contender, error) {
	store, err := memstore.NewCtx(0) // a plain map, which is faster than its LRU and evicts nothing
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(q.count, q.period),
		MaxBurst: q.count - 1, // beyond the first
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
