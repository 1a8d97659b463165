package grpclimit_test

import (
	"context"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
)

// packageExample is the example of the package comment.
func packageExample(store headgate.Limiter, userOf func(context.Context) string) *grpc.Server {
	limit := grpclimit.By(store, func(ctx context.Context, method string) (string, headgate.Limit) {
		return userOf(ctx), headgate.PerSecond(10)
	})
	return grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.Unary),
		grpc.ChainStreamInterceptor(limit.Stream),
	)
}

var _ = packageExample
