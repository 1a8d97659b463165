package grpcapi_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// A server, and a client that protoc has generated.
func Example() {
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	set, err := match.Compile([]rules.Rule{{
		ID: "search", Key: []headgate.Attribute{{Kind: headgate.AttrUser}}, Limits: []rules.Limit{{Limit: headgate.PerHour(2)}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	decide, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := grpcapi.New(grpcapi.Config{Engine: decide})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	ctx, end := context.WithTimeout(context.Background(), 30*time.Second)
	defer end()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := headgatev1.NewRateLimiterClient(conn)
	for range 3 {
		answer, err := limiter.RateLimit(ctx, &headgatev1.RateLimitRequest{Client: &headgatev1.Client{UserId: "alice"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Passed, answer.RemainingRequests, "of", answer.Limit, "left")
	}
	_ = conn.Close()
	fmt.Println(server.Shutdown(ctx), <-served)
	// Output:
	// true 1 of 2 left
	// true 0 of 2 left
	// false 0 of 2 left
	// <nil> <nil>
}
