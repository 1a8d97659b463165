package main

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

func TestEachUserHasItsLimits(t *testing.T) {
	store := memstore.MustNew(memstore.Options{Now: limittest.NewClock().Now})
	defer store.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(store)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := grpc_health_v1.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for user, want := range map[string][]codes.Code{
		"alice": {codes.OK, codes.OK, codes.OK, codes.ResourceExhausted}, "bob": {codes.OK},
	} {
		for i, code := range want {
			_, err := client.Check(metadata.AppendToOutgoingContext(ctx, "x-user", user), &grpc_health_v1.HealthCheckRequest{})
			if status.Code(err) != code {
				t.Errorf("call %d of %s: got %v, want %v", i+1, user, err, code)
			}
		}
	}
	for i, code := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		stream, err := client.Watch(metadata.AppendToOutgoingContext(ctx, "x-user", "alice"), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != code {
			t.Errorf("stream %d of alice: got %v, want %v", i+1, err, code)
		}
	}
}
