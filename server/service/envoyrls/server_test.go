package envoyrls_test

import (
	"context"
	"errors"
	"net"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/service/envoyrls"
	"github.com/headgate/headgate/server/service/grpcapi"
)

func TestInterceptorsSeeTheCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	var methods []string
	client := dial(t, newServer(t, envoyrls.Config{Path: dir}), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			methods = append(methods, info.FullMethod)
			if len(methods) > 1 {
				return nil, grpcstatus.Error(codes.Unauthenticated, "no")
			}
			return next(ctx, req)
		}))
	if r, err := client.ShouldRateLimit(t.Context(), asking("api", "a")); err != nil || r.Statuses[0].LimitRemaining != 9 {
		t.Errorf("got %v, %v; want 9 left", r, err)
	}
	if _, err := client.ShouldRateLimit(t.Context(), asking("api", "a")); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, want what the interceptor says", err)
	}
	if want := rlspb.RateLimitService_ShouldRateLimit_FullMethodName; methods[0] != want {
		t.Errorf("got %s, want %s", methods[0], want)
	}
}

// Reflection shows clients the messages of the service.
func TestReflectionKnowsTheService(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := newSmallStore(t)
	e, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	g, err := grpcapi.New(grpcapi.Config{Engine: e, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, envoyrls.Config{Engine: e, Store: store, OnHealth: func(ok bool) { g.SetServing(envoyrls.HealthName, ok) }})
	g.Register(s.Register)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = conn.Close()
		if err := errors.Join(g.Shutdown(context.Background()), <-done); err != nil {
			t.Error(err)
		}
	}()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	answer := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: envoyrls.ServiceName}})
	if len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("got %v, want the files of the service", answer)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	health := healthpb.NewHealthClient(conn)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: envoyrls.HealthName})
		if err != nil || got.Status != want {
			t.Errorf("health: got %v, %v; want %v", got, err, want)
		}
		s.Drain()
	}
	if r, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), asking("api", "u")); err != nil || r.OverallCode != rlspb.RateLimitResponse_OK {
		t.Errorf("got %v, %v; want OK", r, err)
	}
}
