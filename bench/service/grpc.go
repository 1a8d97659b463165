package service

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/headgate/headgate/bench/harness"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/service/grpcapi"
)

func grpcScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "grpc-calls", Seconds: 120, Run: runGRPCCalls},
		{Name: "grpc-batch", Seconds: 60, Run: runGRPCBatch},
		{Name: "grpc-idle", Seconds: 60, Run: runGRPCIdle},
		{Name: "grpc-sdk", Seconds: 60, Run: runGRPCSDK},
	}
}

func grpcServers() map[string]serviceServer {
	return map[string]serviceServer{"grpc": serveGRPC, "grpc-floor": serveGRPCFloor, "grpc-load": serveGRPCLoad}
}

const (
	grpcKeys   = 400_000
	grpcBatch  = 100
	grpcFlight = 64
)

// serveGRPC serves decisions like the headgate program.
func serveGRPC(l net.Listener, _ string) (func() error, error) {
	store, e, err := eachUser(respRate)
	if err != nil {
		return nil, err
	}
	s, err := grpcapi.New(grpcapi.Config{Engine: e, Store: store})
	if err != nil {
		return nil, err
	}
	return serveDecisions(l, s, store), nil
}

// A grpcFloor responds without making decisions.
type grpcFloor struct {
	headgatev1.UnimplementedRateLimiterServer
}

func floorAnswer() *headgatev1.RateLimitResponse {
	return &headgatev1.RateLimitResponse{
		Passed: true, Limit: respRate, RemainingRequests: respRate - 1,
		RuleId: "each-user",
	}
}

func (grpcFloor) RateLimit(context.Context, *headgatev1.RateLimitRequest) (*headgatev1.RateLimitResponse, error) {
	return floorAnswer(), nil
}

func (grpcFloor) BatchRateLimit(
	_ context.Context, r *headgatev1.BatchRateLimitRequest,
) (*headgatev1.BatchRateLimitResponse, error) {
	answers := make([]*headgatev1.RateLimitResponse, len(r.Requests))
	for i := range answers {
		answers[i] = floorAnswer()
	}
	return &headgatev1.BatchRateLimitResponse{Responses: answers}, nil
}

func (grpcFloor) Stream(s grpc.BidiStreamingServer[headgatev1.StreamRequest, headgatev1.StreamResponse]) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // it has ended
		}
		if err := s.Send(&headgatev1.StreamResponse{Id: r.Id, Response: floorAnswer()}); err != nil {
			return err
		}
	}
}

// serveGRPCFloor is grpc-go with default options and generated code.
func serveGRPCFloor(l net.Listener, _ string) (func() error, error) {
	s := grpc.NewServer()
	headgatev1.RegisterRateLimiterServer(s, grpcFloor{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return func() error {
		s.Stop()
		return <-served
	}, nil
}

// grpcLoads are the load processes, by site.
var grpcLoads sync.Map

const (
	grpcTitle  = "**headgate**"
	floorTitle = "grpc-go, answers without deciding"
)

func runGRPCCalls(ctx context.Context, b *harness.Bench) error {
	unary, stream := grpcJob{Kind: "unary", Callers: grpcFlight}, grpcJob{Kind: "stream", Callers: grpcFlight}
	return runService(ctx, b, harness.ServiceTable{ID: "grpc-calls", Title: "gRPC, 64 requests in flight, 400 k keys"},
		[]serviceContender{
			{
				name: "headgate", title: grpcTitle + ", one stream", role: harness.Ours, server: "headgate",
				open: openServer("grpc", ""), run: stream.ask,
			},
			{
				name: "headgate-unary", title: "headgate, unary", role: harness.Ours, server: "headgate",
				open: openServer("grpc", ""), run: unary.ask,
			},
			{
				name: "floor", title: floorTitle + ", unary", role: harness.Floor, server: "floor",
				open: openServer("grpc-floor", ""), run: unary.ask,
			},
			{
				name: "floor-stream", title: floorTitle + ", one stream", role: harness.Floor, server: "floor",
				open: openServer("grpc-floor", ""), run: stream.ask,
			},
		})
}

func runGRPCBatch(ctx context.Context, b *harness.Bench) error {
	job := grpcJob{Kind: "batch", Callers: 16}
	return runService(ctx, b, harness.ServiceTable{ID: "grpc-batch", Title: "gRPC, batches of 100, 400 k keys"},
		[]serviceContender{
			{
				name: "headgate", title: grpcTitle, role: harness.Ours, server: "headgate", open: openServer("grpc", ""),
				run: job.ask,
			},
			{
				name: "floor", title: floorTitle, role: harness.Floor, server: "floor", open: openServer("grpc-floor", ""),
				run: job.ask,
			},
		})
}

func runGRPCIdle(ctx context.Context, b *harness.Bench) error {
	job := grpcJob{Kind: "unary", Callers: 1}
	return runService(ctx, b, harness.ServiceTable{
		ID: "grpc-idle", Title: "gRPC, one call at a time on an idle server",
		Timed: true,
	}, []serviceContender{
		{
			name: "headgate", title: grpcTitle, role: harness.Ours, server: "headgate", open: openServer("grpc", ""),
			run: job.ask,
		},
		{
			name: "floor", title: floorTitle, role: harness.Floor, server: "floor", open: openServer("grpc-floor", ""),
			run: job.ask,
		},
	})
}

func runGRPCSDK(ctx context.Context, b *harness.Bench) error {
	batched, alone := grpcJob{Kind: "sdk", Callers: 64}, grpcJob{Kind: "sdk-alone", Callers: 64}
	return runService(ctx, b, harness.ServiceTable{ID: "grpc-sdk", Title: "Go SDK, 64 goroutines, 400 k keys"},
		[]serviceContender{
			{
				name: "headgate", title: grpcTitle + ", calls that travel together", role: harness.Ours, server: "headgate",
				open: openServer("grpc", ""), run: batched.ask,
			},
			{
				name: "alone", title: "headgate, each call alone", role: harness.Floor, server: "headgate",
				open: openServer("grpc", ""), run: alone.ask,
			},
		})
}

func grpcBars(r *harness.Results) []harness.Bar {
	calls := r.ServiceNamed("grpc-calls")
	return []harness.Bar{
		calls.RatesAbove("headgate", "floor", "gRPC stream, 64 in flight", 3, ""),
		r.ServiceNamed("grpc-batch").RatesAtLeast("headgate", "gRPC, batches of 100 over 400 k keys", 1e6, ""),
		r.ServiceNamed("grpc-batch").RatesAtLeast("headgate", "gRPC, batches of 100 over 400 k keys", 2e6, " (to reach for)"),
		r.ServiceNamed("grpc-idle").TailBelow("headgate", "floor", "gRPC, p99 of one call on an idle server", 1.3),
		r.ServiceNamed("grpc-sdk").RatesAbove("headgate", "alone", "Go SDK, 64 goroutines", 5, ""),
	}
}

func grpcMethod(b *strings.Builder, _ *harness.Results) {
	fmt.Fprintf(b, `- gRPC: every client is decided by one rule of %d a second, over %s clients, so that each decision takes something. The floor is a
  server of grpc-go with the generated code that answers the same message without reading what was asked. Unary calls are those of the
  generated client; what is sent in batches was written before. On a stream the next request is sent when one of 64 was answered.
`, respRate, harness.HumanCount(grpcKeys))
}
