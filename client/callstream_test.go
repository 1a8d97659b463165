package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
)

// callCounts counts the calls of a client.
type callCounts struct{ unary, streams, sentOnStreams atomic.Int64 }

func (n *callCounts) onUnary() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, q, a any, conn *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption,
	) error {
		n.unary.Add(1)
		return next(ctx, method, q, a, conn, o...)
	})
}

func (n *callCounts) onStreams() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
		o ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		n.streams.Add(1)
		s, err := next(ctx, desc, conn, method, o...)
		if err != nil {
			return nil, err
		}
		return &countedStream{s, n}, nil
	})
}

type countedStream struct {
	grpc.ClientStream
	counts *callCounts
}

func (c *countedStream) SendMsg(m any) error {
	c.counts.sentOnStreams.Add(1)
	return c.ClientStream.SendMsg(m)
}

// concurrently calls f in several goroutines, calls times in each.
func concurrently(goroutines, calls int, f func(goroutine, call int)) {
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range calls {
				f(g, i)
			}
		})
	}
	group.Wait()
}

// sendBatch sends requests of users on a stream, as a sender of a batcher does, and returns the finished tasks.
func sendBatch(t *testing.T, c *Client, stream *callStream, timeout time.Duration, users ...string) []*task {
	t.Helper()
	batch := make([]*task, len(users))
	for i, user := range users {
		batch[i] = &task{request: wirev1.RateLimitRequest{User: user}}
	}
	c.sendRequests(t.Context(), stream, time.Now().Add(timeout), batch)
	return batch
}

func wantPassed(t *testing.T, batch []*task) {
	t.Helper()
	for _, done := range batch {
		if done.err != nil || !done.decision.Passed {
			t.Errorf("got %+v, %v; want it passed", done.decision, done.err)
		}
	}
}

func TestBatchesShareFewStreams(t *testing.T) {
	var n callCounts
	c := newFakeService(3).client(t, n.onStreams(), n.onUnary())
	const goroutines, calls = 64, 60
	concurrently(goroutines, calls, func(g, i int) {
		user := fmt.Sprint("user", g, "-", i/4)
		got, err := c.RateLimit(t.Context(), Request{User: user})
		passes := i%4 < 3
		if err != nil || got.Degraded || got.Passed != passes || passes && got.Remaining != int64(2-i%4) {
			t.Errorf("call %d of %s: got %+v, %v", i%4+1, user, got, err)
		}
	})
	if n.streams.Load() == 0 || n.sentOnStreams.Load() < 2*n.streams.Load() {
		t.Errorf("%d batches on %d streams, want at least two on each", n.sentOnStreams.Load(), n.streams.Load())
	}
	if got := n.sentOnStreams.Load() + n.unary.Load(); got > goroutines*calls/2 {
		t.Errorf("%d calls for %d decisions, want at most half as many", got, goroutines*calls)
	}
	await.True(t, "idle senders have ended", func() bool {
		c.ruleCalls.mu.Lock()
		defer c.ruleCalls.mu.Unlock()
		return c.ruleCalls.senders == 0
	})
}

func TestServiceWithoutStreamsGetsUnaryCalls(t *testing.T) {
	var n callCounts
	service := newFakeService(1000)
	service.noStreams.Store(true)
	c := service.client(t, n.onStreams())
	concurrently(32, 30, func(_, _ int) {
		if got, err := c.RateLimit(t.Context(), Request{User: "a"}); err != nil || !got.Passed || got.Degraded {
			t.Errorf("got %+v, %v; want it passed", got, err)
		}
	})
	if service.batches.Load() == 0 {
		t.Error("got no batch, want some")
	}
	if n.streams.Load() > 2*maxCalls {
		t.Errorf("%d streams were tried, want none once one was refused", n.streams.Load())
	}
}

func TestUpgradedServiceGetsStreams(t *testing.T) {
	var n callCounts
	service := newFakeService(3)
	service.noStreams.Store(true)
	c := service.client(t, n.onStreams())
	c.streamRetry = time.Hour
	var stream callStream
	defer stream.close()
	for range 2 {
		wantPassed(t, sendBatch(t, c, &stream, patience, "a", "b"))
	}
	if got := n.streams.Load(); got != 1 {
		t.Errorf("%d streams were tried, want one and then none for an hour", got)
	}
	service.noStreams.Store(false)
	c.noStreamsUntil.Store(1) // the hour has passed
	wantPassed(t, sendBatch(t, c, &stream, patience, "a", "b"))
	if got := service.streams.Load(); got != 1 {
		t.Errorf("the upgraded service got %d streams, want 1", got)
	}
}

// A batch that the service has read may have been counted, so it ends at its deadline and is not sent again.
func TestBatchOnAStreamKeepsItsDeadline(t *testing.T) {
	var n callCounts
	service := newFakeService(3)
	c := service.client(t, n.onStreams(), n.onUnary())
	var stream callStream
	defer stream.close()
	wantPassed(t, sendBatch(t, c, &stream, patience, "a", "b")) // opens the stream
	service.silent.Store(true)
	for _, done := range sendBatch(t, c, &stream, 20*time.Millisecond, "a", "b") {
		if !errors.Is(done.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", done.err)
		}
	}
	if n.sentOnStreams.Load() != 2 || n.unary.Load() != 0 {
		t.Errorf("%d batches on streams and %d others, want 2 and none", n.sentOnStreams.Load(), n.unary.Load())
	}
}

func TestCloseEndsBatchesOnStreams(t *testing.T) {
	var n callCounts
	service := newFakeService(3)
	service.silent.Store(true)
	c := service.client(t, n.onStreams())
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			if _, err := c.RateLimit(t.Context(), Request{User: "a"}); !errors.Is(err, headgate.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
	await.True(t, "a batch is sent", func() bool { return n.sentOnStreams.Load() > 0 })
	c.ruleCalls.close()
	group.Wait()
}

// An interceptor of the program may return a nil stream of its own type together with an error.
func TestNilStreamOfAnInterceptorIsNotUsed(t *testing.T) {
	refused := status.Error(codes.Unavailable, "not now")
	c := newFakeService(3).client(t, grpc.WithChainStreamInterceptor(func(
		context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return (*countedStream)(nil), refused
	}))
	var stream callStream
	defer stream.close()
	for _, done := range sendBatch(t, c, &stream, patience, "a", "b") {
		if !errors.Is(done.err, refused) {
			t.Errorf("got %v, want the interceptor's error", done.err)
		}
	}
}

// connEnds receives a value for each connection that has ended.
type connEnds chan struct{}

func (connEnds) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connEnds) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connEnds) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e connEnds) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		e <- struct{}{}
	}
}

// Nothing can be sent on a stream whose connection has broken since its last use, so the batch is safe to send again.
func TestUnsentBatchIsSentAgain(t *testing.T) {
	var mu sync.Mutex
	var last net.Conn
	ended := make(connEnds, 10)
	var n callCounts
	c := newFakeService(3).client(t, n.onStreams(), grpc.WithStatsHandler(ended),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			var err error
			last, err = new(net.Dialer).DialContext(ctx, "tcp", address)
			return last, err
		}))
	var stream callStream
	defer stream.close()
	for round := range 3 {
		for _, done := range sendBatch(t, c, &stream, patience, "a", "b") {
			if want := int64(2 - round); done.err != nil || !done.decision.Passed || done.decision.Remaining != want {
				t.Errorf("round %d: got %+v, %v; want it passed and counted once, with %d left", round, done.decision, done.err, want)
			}
		}
		mu.Lock()
		conn := last
		mu.Unlock()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	if n.sentOnStreams.Load() < 2 {
		t.Errorf("%d batches were sent on streams, want at least 2", n.sentOnStreams.Load())
	}
}

// After a wrong response, the next one on the stream might belong to another batch.
func TestStreamWithAWrongResponseIsClosed(t *testing.T) {
	service := newFakeService(3)
	service.extraResponse.Store(true)
	c := service.client(t)
	var stream callStream
	defer stream.close()
	for _, done := range sendBatch(t, c, &stream, patience, "a", "b") {
		if status.Code(done.err) != codes.Internal {
			t.Errorf("got %+v, %v; want Internal", done.decision, done.err)
		}
	}
	wantPassed(t, sendBatch(t, c, &stream, patience, "a", "b"))
	if got := service.streams.Load(); got != 2 {
		t.Errorf("got %d streams, want a second one for the second batch", got)
	}
}
