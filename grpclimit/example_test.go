package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// Each API key may ask for the health of a service twice a minute.
func Example() {
	clock := limittest.NewClock() // stands still, so that the output is always the same
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	set, err := match.Compile([]rules.Rule{{
		ID: "health",
		When: rules.Condition{Tests: []rules.Test{{
			Attribute: headgate.Attribute{Kind: headgate.AttrPath}, Values: []string{"/grpc.health.v1.Health/Check"},
		}}},
		Key:    []headgate.Attribute{{Kind: headgate.AttrAPIKey}},
		Limits: []rules.Limit{{Limit: headgate.PerMinute(2)}},
	}})
	if err != nil {
		panic(err)
	}
	decide, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		panic(err)
	}

	limit, err := grpclimit.New(grpclimit.Config{Engine: decide, Now: clock.Now})
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.Unary),
		grpc.ChainStreamInterceptor(limit.Stream),
	)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer shut(conn)
	client := grpc_health_v1.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, key := range []string{"alice", "alice", "alice", "bob"} {
		var header metadata.MD
		_, err := client.Check(metadata.AppendToOutgoingContext(ctx, "x-api-key", key), &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header))
		st := status.Convert(err)
		fmt.Println(key, st.Code(), header.Get("ratelimit"))
		for _, d := range st.Details() {
			switch d := d.(type) {
			case *errdetails.RetryInfo:
				fmt.Println("  retry in", d.GetRetryDelay().AsDuration())
			case *errdetails.QuotaFailure:
				fmt.Println("  over", d.GetViolations()[0].GetSubject(), d.GetViolations()[0].GetDescription())
			}
		}
	}
	// Output:
	// alice OK ["health";r=1;t=30]
	// alice OK ["health";r=0;t=30]
	// alice ResourceExhausted []
	//   retry in 30s
	//   over health 2/m
	// bob OK ["health";r=1;t=30]
}
