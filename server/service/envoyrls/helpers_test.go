package envoyrls_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/proto/grpcwire"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// dial serves gRPC on a free port, and returns a generated client.
func dial(t testing.TB, s *envoyrls.Server, options ...grpc.ServerOption) rlspb.RateLimitServiceClient {
	t.Helper()
	return rlspb.NewRateLimitServiceClient(connect(t, s, options...))
}

// connect serves gRPC on a free port, and connects to it.
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

// limits is a configuration of one limit by user.
func limits(domain string, perHour int) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n- key: user\n  rate_limit: {unit: hour, requests_per_unit: %d}\n", domain, perHour)
}

// asking returns a request for a user.
func asking(domain string, users ...string) *rlspb.RateLimitRequest {
	r := &rlspb.RateLimitRequest{Domain: domain}
	for _, user := range users {
		r.Descriptors = append(r.Descriptors, &ratelimitpb.RateLimitDescriptor{
			Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: user}},
		})
	}
	return r
}

func newServer(t testing.TB, c envoyrls.Config) *envoyrls.Server {
	t.Helper()
	if c.Store == nil {
		c.Store = newSmallStore(t)
	}
	if c.Logger == nil {
		c.Logger = quiet
	}
	if c.Logins == nil {
		c.Logins = newLogins(t, 1000)
	}
	s, err := envoyrls.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// limitOf returns the current limit of a user, or 0 if there is none.
func limitOf(t testing.TB, c rlspb.RateLimitServiceClient, domain string) uint32 {
	t.Helper()
	r, err := c.ShouldRateLimit(t.Context(), asking(domain, "u"))
	if err != nil {
		t.Fatal(err)
	}
	return r.Statuses[0].GetCurrentLimit().GetRequestsPerUnit()
}

func newLogins(t testing.TB, most int64) *service.Logins {
	t.Helper()
	made, err := service.NewLogins(service.LoginOptions{Limit: headgate.PerHour(most), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}
