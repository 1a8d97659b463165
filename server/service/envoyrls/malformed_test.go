package envoyrls_test

import (
	"bytes"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/proto/grpcwire"
	"github.com/headgate/headgate/server/service/envoyrls"
)

func TestRequestsOverTheirBoundsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	s := newServer(t, envoyrls.Config{Path: dir, Limits: envoyrls.Limits{Descriptors: 2, Entries: 2}})
	client := dial(t, s)
	many := asking("api", "a")
	for range 2 {
		many.Descriptors[0].Entries = append(many.Descriptors[0].Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: "k"})
	}
	for name, r := range map[string]*rlspb.RateLimitRequest{"descriptors": asking("api", "a", "b", "c"), "entries": many} {
		_, err := client.ShouldRateLimit(t.Context(), r)
		if grpcstatus.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "too many "+name) {
			t.Errorf("%s: got %v, want an InvalidArgument that says so", name, err)
		}
	}
	if _, err := client.ShouldRateLimit(t.Context(), asking("api", "a", "b")); err != nil {
		t.Errorf("as many as may be: got %v", err)
	}
	million := append(marshal(t, &rlspb.RateLimitRequest{Domain: "api"}), bytes.Repeat([]byte{0x12, 0x00}, 1_000_000)...)
	var call envoyrls.Call
	if _, err := call.Answer(t.Context(), s, million); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("a million descriptors: got %v, want InvalidArgument", err)
	}
	if got := s.Stats(); got.Refused != 3 || got.Requests != 1 {
		t.Errorf("got %d refused and %d answered, want 3 and 1", got.Refused, got.Requests)
	}
}

// Clients must not evade limits with a header of invalid UTF-8.
func TestInvalidUTF8ValuesAreLimited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1)+"- {key: agent}\n")
	s := newServer(t, envoyrls.Config{Path: dir, Store: newSmallStore(t), CountDenied: true})
	request := marshal(t, &rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "agent", Value: "XXXX"}}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: "XXXX"}}},
	}})
	request = bytes.ReplaceAll(request, []byte("XXXX"), []byte("a\xff\xfeb"))
	var call envoyrls.Call
	for i, want := range []rlspb.RateLimitResponse_Code{rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT} {
		data, err := call.Answer(t.Context(), s, request)
		if err != nil {
			t.Fatal(err)
		}
		var got rlspb.RateLimitResponse
		if err := proto.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if got.OverallCode != want {
			t.Errorf("request %d: got %v, want %v", i+1, got.OverallCode, want)
		}
	}
}

func TestMalformedRequestsGetAnErrorCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	s := newServer(t, envoyrls.Config{Path: dir})
	conn := connect(t, s)
	for name, data := range map[string]string{
		"half a field":      "\x0a\x20api",
		"no UTF-8":          "\x0a\x02\xff\xfe",
		"a huge length":     "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"an endless number": strings.Repeat("\xff", 100),
		"a group that ends": "\x0c",
		"nothing":           "",
	} {
		message := bytesMessage(data)
		err := conn.Invoke(t.Context(), rlspb.RateLimitService_ShouldRateLimit_FullMethodName, &message, new(bytesMessage), grpc.ForceCodecV2(grpcwire.Codec))
		if code := grpcstatus.Code(err); code != codes.Internal && code != codes.InvalidArgument {
			t.Errorf("%s: got %v, want Internal or InvalidArgument", name, err)
		}
	}
	// and others are not disturbed
	if r, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), asking("api", "u")); err != nil || r.Statuses[0].LimitRemaining != 9 {
		t.Errorf("got %v, %v; want 9 left", r, err)
	}
}

// A bytesMessage is a message of raw bytes.
type bytesMessage string

func (m *bytesMessage) MarshalWire(dst []byte) ([]byte, error) { return append(dst, *m...), nil }

func (m *bytesMessage) UnmarshalWire(b []byte) error {
	*m = bytesMessage(b)
	return nil
}
