package grpcapi

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A watch never ends, so a connection may have only a few.
func TestWatchesOfAConnectionAreBounded(t *testing.T) {
	_, address := start(t, Config{})
	ctx, end := context.WithCancel(patient(t))
	defer end()
	watch := func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	conn := dial(t, address)
	first, endFirst := context.WithCancel(ctx)
	if err := watch(first, conn); err != nil {
		t.Fatal(err)
	}
	for range maxWatches - 1 {
		if err := watch(ctx, conn); err != nil {
			t.Fatal(err)
		}
	}
	if err := watch(ctx, conn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many: got %v, want ResourceExhausted", err)
	}
	if err := watch(ctx, dial(t, address)); err != nil {
		t.Errorf("another connection: got %v", err)
	}
	endFirst()
	until(t, "there is room again", func() bool { return watch(ctx, conn) == nil })
}

func TestHealthReportsEachService(t *testing.T) {
	s, address := start(t, Config{})
	s.SetServing("ratelimit", true)
	health := grpc_health_v1.NewHealthClient(dial(t, address))
	for name, want := range map[string]codes.Code{
		"": codes.OK, "headgate.v1.RateLimiter": codes.OK, "ratelimit": codes.OK, "headgate.v1.Store": codes.NotFound, "none": codes.NotFound,
	} {
		_, err := health.Check(patient(t), &grpc_health_v1.HealthCheckRequest{Service: name})
		if status.Code(err) != want {
			t.Errorf("%q: got %v, want %v", name, err, want)
		}
	}
}
