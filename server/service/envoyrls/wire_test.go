package envoyrls_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// aRequest returns a random request.
func aRequest(from *rand.Rand) *rlspb.RateLimitRequest {
	word := func() string {
		return []string{"", "a", "user", "päth", "/x/y", strings.Repeat("long", 100)}[from.IntN(6)]
	}
	m := &rlspb.RateLimitRequest{Domain: word(), HitsAddend: uint32(from.IntN(3)) * from.Uint32()}
	for range from.IntN(4) {
		d := &ratelimitpb.RateLimitDescriptor{IsNegativeHits: from.IntN(4) == 0}
		for range from.IntN(4) {
			d.Entries = append(d.Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: word(), Value: word()})
		}
		if from.IntN(3) == 0 {
			d.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: uint32(from.IntN(2)) * from.Uint32(), Unit: typepb.RateLimitUnit(from.IntN(9) - 1),
			}
			if from.IntN(3) == 0 {
				d.Limit.UnitMultiplier = wrapperspb.UInt32(1 + uint32(from.IntN(1000)))
			}
		}
		if from.IntN(3) == 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(from.IntN(2)) * from.Uint64())
		}
		m.Descriptors = append(m.Descriptors, d)
	}
	return m
}

func TestRequestsAreReadAsGeneratedCodeReadsThem(t *testing.T) {
	t.Parallel()
	from := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		want := aRequest(from)
		data, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := envoyrls.ReadRequest(data)
		if err != nil {
			t.Fatalf("%v: %v", want, err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	}
}

// FuzzRequest compares the decoding of wire bytes with that of generated code. Both refuse the same bytes, except values
// that are not UTF-8, and both read the same request.
func FuzzRequest(f *testing.F) {
	from := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		data, err := proto.Marshal(aRequest(from))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		if len(data) > 3 {
			f.Add(data[:len(data)/2])
			f.Add(append(data[len(data)/3:len(data)/2:len(data)/2], data...))
		}
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 9, protowire.StartGroupType), 9, protowire.EndGroupType)
	f.Add(group)
	f.Add(protowire.AppendTag(nil, 9, protowire.EndGroupType))
	f.Add([]byte{0x0a, 0x02, 0xff, 0xfe})                         // a text that is not UTF-8
	f.Add([]byte{0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0xff})       // a value that is not
	f.Add([]byte{0x12, 0x06, 0x12, 0x00, 0x12, 0x02, 0x08, 0x05}) // a limit in two pieces
	f.Add([]byte{0x08, 0x01, 0x15, 1, 2, 3, 4})                   // known fields of other types
	f.Fuzz(func(t *testing.T, data []byte) {
		want := new(rlspb.RateLimitRequest)
		wantErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, want)
		got, err := envoyrls.ReadRequest(data)
		for _, d := range got.GetDescriptors() {
			for _, e := range d.Entries {
				if !utf8.ValidString(e.Value) {
					t.Fatalf("%x: got the value %q, want UTF-8", data, e.Value)
				}
			}
		}
		if err == nil && wantErr != nil && strings.Contains(wantErr.Error(), "invalid UTF-8") {
			return
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%x: got %v, generated code %v", data, err, wantErr)
		}
		for _, d := range want.GetDescriptors() { // 0 means the same as none
			if d.Limit != nil && d.Limit.UnitMultiplier.GetValue() == 0 {
				d.Limit.UnitMultiplier = nil
			}
		}
		if err == nil && !proto.Equal(got, want) {
			t.Fatalf("%x:\n got %v\nwant %v", data, got, want)
		}
	})
}

// Everything that a reply can have is written byte for byte as generated code would.
func TestRepliesAreWrittenAsGeneratedCodeWritesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "limits.yaml", `
domain: api
descriptors:
- key: a
  rate_limit: {unit: day, requests_per_unit: 4000000000, name: täglich}
  metadata: {service: x, list: [1, two, {three: 3}], long: `+strings.Repeat("word ", 60)+`}
- {key: b, rate_limit: {unlimited: true}, metadata: {y: 1}}
- {key: c, limit: 1/7s token-bucket}
- {key: d, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: e, rate_limit: {unit: year, requests_per_unit: 1, name: `+strings.Repeat("n", 300)+`}}
`)
	s, err := envoyrls.New(envoyrls.Config{
		Path: dir, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20}), CountDenied: true, ResponseHeaders: true, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	from := rand.New(rand.NewPCG(5, 6))
	var call envoyrls.Call
	for range 2000 {
		m := &rlspb.RateLimitRequest{Domain: "api"}
		for range 1 + from.IntN(5) {
			d := &ratelimitpb.RateLimitDescriptor{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{
				{Key: string(rune('a' + from.IntN(6))), Value: string(rune('a' + from.IntN(3)))},
			}}
			if from.IntN(4) == 0 {
				d.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: from.Uint32() >> from.IntN(32), Unit: typepb.RateLimitUnit(1 + from.IntN(4))}
				if from.IntN(2) == 0 {
					d.Limit.UnitMultiplier = wrapperspb.UInt32(1 + uint32(from.IntN(200)))
				}
			}
			if from.IntN(2) == 0 {
				d.HitsAddend = wrapperspb.UInt64(from.Uint64() >> from.IntN(64))
			}
			m.Descriptors = append(m.Descriptors, d)
		}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := call.Answer(t.Context(), s, data)
		if err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		answer := new(rlspb.RateLimitResponse)
		if err := proto.Unmarshal(got, answer); err != nil {
			t.Fatalf("%x: %v", got, err)
		}
		if len(answer.ProtoReflect().GetUnknown()) > 0 || len(answer.Statuses) != len(m.Descriptors) {
			t.Fatalf("%v: got %v", m, answer)
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%v:\n got %x\nwant %x", answer, got, want)
		}
		if answer.OverallCode == rlspb.RateLimitResponse_UNKNOWN {
			t.Fatalf("%v: got the code UNKNOWN", m)
		}
		for _, st := range answer.Statuses {
			if st.Code == rlspb.RateLimitResponse_UNKNOWN {
				t.Fatalf("%v: got a status UNKNOWN", m)
			}
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

func newStore(t testing.TB, o memstore.Options) *memstore.Store {
	t.Helper()
	s, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestDecisionAllocatesNothing(t *testing.T) {
	racing.Skip(t, "the race detector allocates")
	dir := t.TempDir()
	write(t, dir, "limits.yaml", `
domain: api
descriptors:
- key: user
  rate_limit: {unit: second, requests_per_unit: 1000000}
- key: path
  value: /v1/*
  share_threshold: true
  value_to_metric: true
  descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10}
`)
	s, err := envoyrls.New(envoyrls.Config{Path: dir, Store: newStore(t, memstore.Options{}), CountDenied: true, ResponseHeaders: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: "alice"}}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "path", Value: "/v1/search"}, {Key: "user", Value: "alice"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var call envoyrls.Call
	ctx := context.Background()
	deadline := time.Now().Add(time.Minute)
	for { // the collector may empty the pool at any time
		got := testing.AllocsPerRun(1000, func() {
			if _, err := call.Answer(ctx, s, data); err != nil {
				t.Fatal(err)
			}
		})
		if got == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v allocations an answer, want 0", got)
		}
	}
}
