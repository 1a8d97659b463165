package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// group sends requests for a user as a sender does, and returns the tasks.
func group(t *testing.T, c *Client, l *lane, users ...string) []*task {
	t.Helper()
	together := make([]*task, len(users))
	for i, user := range users {
		together[i] = &task{request: wirev1.RateLimitRequest{User: user, Attributes: []wirev1.Attribute{{Name: "path", Value: "/api/x"}}}}
	}
	c.sendRequests(t.Context(), l, time.Now().Add(patience), together)
	return together
}

// Those who add an interceptor of their own may hand back a stream that is none together with the error.
func TestAnInterceptorsStreamThatIsNoneIsNotUsed(t *testing.T) {
	refused := status.Error(codes.Unavailable, "not now")
	c := newHost(t, nil, grpcapi.Config{}).client(Options{Dial: []grpc.DialOption{grpc.WithChainStreamInterceptor(
		func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return (*counted)(nil), refused
		})}})
	var l lane
	defer l.close()
	for _, done := range group(t, c, &l, "a", "b") {
		if !errors.Is(done.err, refused) {
			t.Errorf("got %v, want the interceptor's error", done.err)
		}
	}
}

// ends receives when connections and their users have ended.
type ends struct{ ended chan struct{} }

func (ends) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (ends) HandleRPC(context.Context, stats.RPCStats)                         {}
func (ends) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e ends) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		e.ended <- struct{}{}
	}
}

// Nothing is sent on a stream whose connection has died since it was used last, so that the group may go again.
func TestAGroupThatWasNotSentGoesAgain(t *testing.T) {
	var mu sync.Mutex
	var last net.Conn
	over := ends{ended: make(chan struct{}, 10)}
	var n traffic
	c := newHost(t, nil, grpcapi.Config{}).client(Options{Dial: []grpc.DialOption{
		n.option(), grpc.WithStatsHandler(over),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			var err error
			last, err = new(net.Dialer).DialContext(ctx, "tcp", address)
			return last, err
		}),
	}})
	var l lane
	defer l.close()
	for round := range 3 { // the last has no breaks before it that it could be lucky with
		for _, done := range group(t, c, &l, "a", "b") {
			if want := int64(2 - round); done.err != nil || !done.answer.Passed || done.answer.Remaining != want {
				t.Errorf("round %d: got %+v, %v; want it passed, and counted once: %d left", round, done.answer, done.err, want)
			}
		}
		mu.Lock()
		dead := last
		mu.Unlock()
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		<-over.ended
	}
	if n.sent.Load() < 2 {
		t.Errorf("%d groups were sent on streams, want the first and those that met a dead one", n.sent.Load())
	}
}

// A newer service has streams of batches.
type newer struct {
	older
	streams atomic.Int64
	still   atomic.Bool // as old as the older one
	wordy   atomic.Bool // the next batch gets one answer too many
}

func (s *newer) BatchStream(stream grpc.BidiStreamingServer[headgatev1.BatchRateLimitRequest, headgatev1.BatchRateLimitResponse]) error {
	if s.still.Load() {
		return s.UnimplementedRateLimiterServer.BatchStream(stream)
	}
	s.streams.Add(1)
	for {
		q, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has ended it
		}
		if s.wordy.Swap(false) {
			q.Requests = append(q.Requests, q.Requests[0])
		}
		a, err := s.BatchRateLimit(stream.Context(), q)
		if err != nil {
			return err
		}
		if err := stream.Send(a); err != nil {
			return err
		}
	}
}

// clientOf returns a client of a service, without a token.
func clientOf(t *testing.T, service headgatev1.RateLimiterServer, dial ...grpc.DialOption) *Client {
	t.Helper()
	server := grpc.NewServer()
	headgatev1.RegisterRateLimiterServer(server, service)
	c, err := New(Options{Address: listen(t, server), Deadline: patience, Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAServiceThatWasUpgradedIsCalledOnStreams(t *testing.T) {
	var n traffic
	service := new(newer)
	service.still.Store(true)
	c := clientOf(t, service, n.option())
	var l lane
	defer l.close()
	fine := func() {
		t.Helper()
		for _, done := range group(t, c, &l, "a", "b") {
			if done.err != nil || !done.answer.Passed {
				t.Errorf("got %+v, %v; want it passed", done.answer, done.err)
			}
		}
	}
	c.noLaneTime = time.Hour
	fine()
	fine()
	if got := n.streams.Load(); got != 1 {
		t.Errorf("%d streams were tried, want one and then none for an hour", got)
	}
	service.still.Store(false)
	c.noLanes.Store(1) // the hour is over
	fine()
	if got := service.streams.Load(); got != 1 {
		t.Errorf("the service had %d streams once it knew them, want 1", got)
	}
}

// What a stream says after an answer that cannot be right belongs to nobody.
func TestAStreamWithAWrongAnswerIsUsedNoMore(t *testing.T) {
	service := new(newer)
	service.wordy.Store(true)
	c := clientOf(t, service)
	var l lane
	defer l.close()
	for _, done := range group(t, c, &l, "a", "b") {
		if status.Code(done.err) != codes.Internal {
			t.Errorf("got %+v, %v; want Internal", done.answer, done.err)
		}
	}
	for _, done := range group(t, c, &l, "a", "b") {
		if done.err != nil || !done.answer.Passed {
			t.Errorf("the next: got %+v, %v; want it passed", done.answer, done.err)
		}
	}
	if got := service.streams.Load(); got != 2 {
		t.Errorf("got %d streams, want another for what came after", got)
	}
}
