package redisstore_test

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
)

// packageExample is the example of the package comment.
func packageExample(ctx context.Context, user string) (headgate.Decision, error) {
	store, err := redisstore.Open(ctx, "redis://localhost:6379", redisstore.Options{})
	if err != nil {
		return headgate.Decision{}, err
	}
	defer store.Close()
	perUser := headgate.MustBind(store, headgate.PerSecond(10))
	return perUser.Take(ctx, user, 1)
}

var _ = packageExample
