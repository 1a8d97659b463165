package guard_test

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard"
)

// packageExample is the example of the package comment.
func packageExample(ctx context.Context, redis headgate.Limiter) (headgate.Decision, error) {
	g, err := guard.New(redis, guard.Options{Nodes: func() int { return 3 }})
	if err != nil {
		return headgate.Decision{}, err
	}
	defer g.Close()
	perUser := headgate.MustBind(g, headgate.PerSecond(10)).WithPolicy(headgate.Local)
	return perUser.Take(ctx, "search/alice", 1)
}

var _ = packageExample
