package client_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/redisstore/guard"
)

// twoPerClient stands in for a decision service: its rule "search" admits two requests, and its store has full counters.
type twoPerClient struct {
	headgatev1.UnimplementedRateLimiterServer
	headgatev1.UnimplementedStoreServer
	taken int64
}

func (s *twoPerClient) RateLimit(
	context.Context, *headgatev1.RateLimitRequest,
) (*headgatev1.RateLimitResponse, error) {
	s.taken++
	return &headgatev1.RateLimitResponse{
		Passed: s.taken <= 2, Limit: 2, RemainingRequests: max(2-s.taken, 0), RuleId: "search",
	}, nil
}

func (s *twoPerClient) Do(_ context.Context, q *headgatev1.DoRequest) (*headgatev1.DoResponse, error) {
	check := q.Operations[0].Checks[0]
	decision := &headgatev1.Decision{
		Allowed: true, Limit: check.Limit.Count, Remaining: check.Limit.Count - check.Cost,
	}
	return &headgatev1.DoResponse{Results: []*headgatev1.Result{{Decisions: []*headgatev1.Decision{decision}}}}, nil
}

// serve runs the service. It returns the address, and a function that stops the service.
func serve() (address string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server, service := grpc.NewServer(), new(twoPerClient)
	headgatev1.RegisterRateLimiterServer(server, service)
	headgatev1.RegisterStoreServer(server, service)
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop
}

func ExampleClient_RateLimit() {
	address, stop := serve()
	defer stop()
	c, err := client.New(client.Options{Address: address, Deadline: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	for range 3 {
		decision, err := c.RateLimit(context.Background(), client.Request{User: "alice"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(decision.Passed, decision.Remaining, "of", decision.Limit, "left by", decision.Rule)
	}
	// Output:
	// true 1 of 2 left by search
	// true 0 of 2 left by search
	// false 0 of 2 left by search
}

func ExampleClient_Limiter() {
	address, stop := serve()
	defer stop()
	c, err := client.New(client.Options{Address: address, Deadline: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	limiter, err := c.Limiter(guard.Options{Deadline: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()
	check := headgate.Check{Key: "mails/alice", Limit: headgate.PerHour(100), Cost: 30}
	d, err := limiter.Take(context.Background(), check)
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 70 <nil>
}
