package limiters

import (
	"context"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func ululeEntry() Entry {
	return Entry{
		Name: "ulule", Title: "ulule/limiter, memory", Module: "github.com/ulule/limiter/v3", Role: harness.Peer,
		Make: newUlule,
	}
}

type ululeLimiter struct{ limiter *limiter.Limiter }

func newUlule(q Quota, _ int) (Limiter, error) {
	// It prepends the prefix to every key, so it keeps a copy of the key. The cleaner does not run during a run.
	store := memory.NewStoreWithOptions(limiter.StoreOptions{
		Prefix:          limiter.DefaultPrefix,
		CleanUpInterval: 12 * time.Hour,
	})
	return ululeLimiter{limiter.New(store, limiter.Rate{Period: q.Period, Limit: int64(q.Count)})}, nil
}

func (u ululeLimiter) Allow(key string) bool {
	answer, err := u.limiter.Get(context.Background(), key)
	return err == nil && !answer.Reached
}
