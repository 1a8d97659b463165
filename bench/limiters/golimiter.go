package limiters

import (
	"context"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

func goLimiterEntry() Entry {
	return Entry{
		Name: "go-limiter", Title: "go-limiter", Module: "github.com/sethvargo/go-limiter", Role: harness.Peer, KeepsKeys: true,
		Make: newGoLimiter,
	}
}

type goLimiter struct{ store limiter.Store }

func newGoLimiter(q Quota, _ int) (Limiter, error) {
	// go-limiter refills interval/tokens units per interval, with the interval in nanoseconds, up to tokens. If
	// interval/tokens is less than tokens, it would deny requests that the quota allows. It then gets so many tokens that
	// a run cannot use them up.
	if float64(q.Interval()) < float64(q.Count) {
		q = Quota{Count: 1 << 40, Period: 12 * time.Hour}
	}
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.Count), Interval: q.Period})
	if err != nil {
		return nil, err
	}
	return goLimiter{store}, nil
}

func (g goLimiter) Allow(key string) bool {
	_, _, _, ok, err := g.store.Take(context.Background(), key)
	return ok && err == nil
}
