package grpcapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

func TestShutdownLetsCallsFinishAndEndsStreams(t *testing.T) {
	store := &slowStore{newStore(t, nil), make(chan struct{}, 100), make(chan struct{})}
	s, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText))})
	conn := dial(t, address)
	limiter := headgatev1.NewRateLimiterClient(conn)
	idle, err := limiter.Stream(patient(t)) // without messages
	if err != nil {
		t.Fatal(err)
	}
	busy, err := limiter.Stream(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Send(&headgatev1.StreamRequest{Id: 7, Request: ask("kim", "/api/x")}); err != nil {
		t.Fatal(err)
	}
	<-store.entered
	answered := make(chan error, 1)
	go func() {
		got, err := limiter.RateLimit(patient(t), ask("lee", "/api/x"))
		if err == nil && !got.Passed {
			err = errors.New("denied")
		}
		answered <- err
	}()
	<-store.entered
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(patient(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("got %v, %v; want SERVING", got, err)
	}
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(patient(t)) }()
	if got, err := watch.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("got %v, %v; want NOT_SERVING", got, err)
	}
	if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("an idle stream: got %v, want Unavailable", err)
	}
	select {
	case err := <-down:
		t.Fatalf("shut down with calls under way: %v", err)
	default:
	}
	close(store.release)
	if err := <-answered; err != nil {
		t.Errorf("a call under way: got %v, want its answer", err)
	}
	if got, err := busy.Recv(); err != nil || got.Id != 7 || !got.Response.Passed {
		t.Errorf("a request on a stream: got %v, %v; want its answer", got, err)
	}
	if _, err := busy.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("its stream: got %v, want Unavailable", err)
	}
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownAbortsSlowCalls(t *testing.T) {
	store := &slowStore{newStore(t, nil), make(chan struct{}, 100), make(chan struct{})}
	s, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText))})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	answered := make(chan error, 1)
	go func() {
		_, err := limiter.RateLimit(patient(t), ask("max", "/api/x"))
		answered <- err
	}()
	<-store.entered
	ctx, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer end()
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(ctx) }()
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	close(store.release) // a real store returns when its context ends; this one must be released
	if err := <-down; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: got %v, want that its time was over", err)
	}
}
