package main

import (
	"context"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func ululeEntry() entry {
	return entry{
		name: "ulule", title: "ulule/limiter, memory", module: "github.com/ulule/limiter/v3", role: peer,
		make: newUlule,
	}
}

type ululeLimiter struct{ limiter *limiter.Limiter }

func newUlule(q quota, _ int) (contender, error) {
	// It prepends the prefix to every key, so that what it keeps is a copy. The cleaner does not run during a run.
	store := memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: limiter.DefaultPrefix, CleanUpInterval: 12 * time.Hour})
	return ululeLimiter{limiter.New(store, limiter.Rate{Period: q.period, Limit: int64(q.count)})}, nil
}

func (u ululeLimiter) Allow(key string) bool {
	answer, err := u.limiter.Get(context.Background(), key)
	return err == nil && !answer.Reached
}
