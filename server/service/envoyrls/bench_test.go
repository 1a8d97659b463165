package envoyrls_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/envoyrls"
)

func benchServer(b *testing.B) *envoyrls.Server {
	b.Helper()
	dir := b.TempDir()
	write(b, dir, "a.yaml", limits("api", 1_000_000))
	return newServer(b, envoyrls.Config{Path: dir, Store: newStore(b, memstore.Options{}), CountDenied: true})
}

// BenchmarkDecide measures a request of one descriptor, from wire bytes to wire bytes.
func BenchmarkDecide(b *testing.B) {
	s := benchServer(b)
	requests := make([][]byte, 1<<10)
	for i := range requests {
		requests[i] = marshal(b, asking("api", fmt.Sprint("user-", i)))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var call envoyrls.Call
		ctx := context.Background()
		for i := 0; pb.Next(); i++ {
			if _, err := call.Answer(ctx, s, requests[i%len(requests)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// still responds without a decision, with generated code.
type still struct {
	rlspb.UnimplementedRateLimitServiceServer
}

func (still) ShouldRateLimit(context.Context, *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	return &rlspb.RateLimitResponse{
		OverallCode: rlspb.RateLimitResponse_OK,
		Statuses: []*rlspb.RateLimitResponse_DescriptorStatus{{
			Code: rlspb.RateLimitResponse_OK, LimitRemaining: 999_999,
			CurrentLimit: &rlspb.RateLimitResponse_RateLimit{RequestsPerUnit: 1_000_000, Unit: rlspb.RateLimitResponse_RateLimit_HOUR},
		}},
	}, nil
}

// BenchmarkUnary measures 64 callers over gRPC: of this server, and of a generated one that does not decide.
func BenchmarkUnary(b *testing.B) {
	b.Run("headgate", func(b *testing.B) { calls(b, dial(b, benchServer(b))) })
	b.Run("floor", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := grpc.NewServer()
		rlspb.RegisterRateLimitServiceServer(server, still{})
		go func() { _ = server.Serve(l) }()
		defer server.Stop()
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		calls(b, rlspb.NewRateLimitServiceClient(conn))
	})
}

func calls(b *testing.B, c rlspb.RateLimitServiceClient) {
	b.Helper()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		request := asking("api", "alice")
		for pb.Next() {
			if _, err := c.ShouldRateLimit(b.Context(), request); err != nil {
				b.Fatal(err)
			}
		}
	})
}
