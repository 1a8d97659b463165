package grpcapi

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/headgate/headgate/proto/headgate/v1"
)

// The test does not import the compressor, because the package must do so.
func TestCallsCompressedWithGzipAreAccepted(t *testing.T) {
	_, address := start(t, Config{MaxMessage: 64 << 10})
	c := pb.NewRateLimiterClient(dial(t, address))
	request := func(user string) *pb.RateLimitRequest {
		return &pb.RateLimitRequest{RuleId: "per-user", Client: &pb.Client{UserId: user}}
	}
	got, err := c.RateLimit(patient(t), request("alice"), grpc.UseCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	if !got.GetPassed() {
		t.Errorf("got %v, want it to pass", got)
	}
	_, err = c.RateLimit(patient(t), request(strings.Repeat("a", 1<<20)), grpc.UseCompressor("gzip"))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is larger than MaxMessage when decompressed: got %v, want ResourceExhausted", err)
	}
}
