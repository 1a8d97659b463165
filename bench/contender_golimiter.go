package main

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

func goLimiterEntry() entry {
	return entry{
		name: "go-limiter", title: "go-limiter", module: "github.com/sethvargo/go-limiter", role: peer, keepsKeys: true,
		make: newGoLimiter,
	}
}

type goLimiter struct{ store limiter.Store }

func newGoLimiter(q quota, _ int) (contender, error) {
	// In each interval it refills interval/tokens units, in nanoseconds, up to tokens; where that is less than tokens it
	// would deny what the quota allows. It then gets so many tokens that a run cannot use them up.
	if float64(q.interval()) < float64(q.count) {
		q = quota{count: 1 << 40, period: 12 * time.Hour}
	}
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.count), Interval: q.period})
	if err != nil {
		return nil, err
	}
	return goLimiter{store}, nil
}

func (g goLimiter) Allow(key string) bool {
	_, _, _, ok, err := g.store.Take(context.Background(), key)
	return ok && err == nil
}
