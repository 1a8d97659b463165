package envoyrls_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/grpcwire"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/service/envoyrls"
)

// dial serves gRPC on a port of its own and returns a client of generated code.
func dial(t testing.TB, s *envoyrls.Server, options ...grpc.ServerOption) rlspb.RateLimitServiceClient {
	t.Helper()
	return rlspb.NewRateLimitServiceClient(connect(t, s, options...))
}

// connect serves gRPC on a port of its own and connects to it.
func connect(t testing.TB, s *envoyrls.Server, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.ForceServerCodecV2(grpcwire.Codec))...)
	s.Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newSmallStore(t testing.TB) *memstore.Store {
	t.Helper()
	return newStore(t, memstore.Options{MaxBytes: 8 << 20})
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
