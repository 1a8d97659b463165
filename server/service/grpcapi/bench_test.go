package grpcapi

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/proto/grpcwire"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

const benchRules = "rules:\n  - id: each-user\n    key: [user]\n    limits: [1000/s]\n"

// handle calls a handler as gRPC does, without the network.
func handle(b testing.TB, s *Server, handler func(context.Context, *Server, func(any) error) (any, error), wire []byte, dst []byte) []byte {
	answer, err := handler(context.Background(), s, func(m any) error { return m.(grpcwire.Message).UnmarshalWire(wire) })
	if err != nil {
		b.Fatal(err)
	}
	dst, err = answer.(grpcwire.Message).MarshalWire(dst)
	if err != nil {
		b.Fatal(err)
	}
	return dst
}

func unary(ctx context.Context, s *Server, decode func(any) error) (any, error) {
	return handleRateLimit(s, ctx, decode, nil)
}

func many(ctx context.Context, s *Server, decode func(any) error) (any, error) {
	return handleBatch(s, ctx, decode, nil)
}

func benchServer(b testing.TB) *Server {
	s, err := New(Config{Engine: newEngine(b, newStore(b, nil), parseRules(b, benchRules))})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func batchesOf(b testing.TB, n, keys int) [][]byte {
	var all [][]byte
	for from := 0; from < keys; from += n {
		m := wirev1.BatchRateLimitRequest{Requests: make([]wirev1.RateLimitRequest, n)}
		for i := range m.Requests {
			m.Requests[i].User = fmt.Sprintf("user-%d", (from+i)*2654435761%400_000)
		}
		wire, err := m.MarshalWire(nil)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, wire)
	}
	return all
}

// One operation is one decision, of batches of 100 over 400,000 clients.
func BenchmarkBatch(b *testing.B) {
	s, wires := benchServer(b), batchesOf(b, 100, 400_000)
	dst := make([]byte, 0, 64<<10)
	for _, wire := range wires { // so that all of them are known
		handle(b, s, many, wire, dst)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 100 {
		handle(b, s, many, wires[i/100%len(wires)], dst)
	}
}

func BenchmarkUnary(b *testing.B) {
	s := benchServer(b)
	m := wirev1.RateLimitRequest{User: "alice"}
	wire, err := m.MarshalWire(nil)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		handle(b, s, unary, wire, dst)
	}
}

// A decision on a store in this process allocates nothing but what gRPC needs.
func TestDecidingAllocatesNothing(t *testing.T) {
	racing.Skip(t, "the race detector allocates")
	s := benchServer(t)
	m := wirev1.RateLimitRequest{User: "alice"}
	one, err := m.MarshalWire(nil)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 64<<10)
	// decode is a closure, as in gRPC.
	if got := testing.AllocsPerRun(1000, func() { handle(t, s, unary, one, dst) }); got > 1 {
		t.Errorf("one call: got %v allocations, want 1", got)
	}
	batch := batchesOf(t, 100, 100)[0]
	if got := testing.AllocsPerRun(1000, func() { handle(t, s, many, batch, dst) }); got > 1 {
		t.Errorf("a batch of 100: got %v allocations, want 1", got)
	}
}

// Calls beside as many idle streams as SDK clients hold.
func BenchmarkUnaryBesideStreams(b *testing.B) {
	for _, streams := range []int{0, 30, 300, 3000} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			_, address := start(b, Config{Engine: newEngine(b, newStore(b, nil), parseRules(b, benchRules))})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for held := 0; held < streams; held += 30 {
				limiter := headgatev1.NewRateLimiterClient(dial(b, address))
				for range min(streams, 30) {
					of, err := limiter.BatchStream(ctx)
					if err != nil {
						b.Fatal(err)
					}
					if err := of.Send(&headgatev1.BatchRateLimitRequest{}); err != nil {
						b.Fatal(err)
					}
					if _, err := of.Recv(); err != nil {
						b.Fatal(err)
					}
				}
			}
			conn := dial(b, address)
			const callers = 64
			var calls atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					q, a := wirev1.RateLimitRequest{User: "alice"}, wirev1.RateLimitResponse{}
					for calls.Add(1) <= int64(b.N) {
						if err := conn.Invoke(ctx, headgatev1.RateLimiter_RateLimit_FullMethodName, &q, &a, forceWire); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
		})
	}
}
