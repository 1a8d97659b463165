package client

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// patience is the longest time that a test waits for a response.
const patience = time.Minute

// A fakeService is a decision service that admits quota requests of each user.
type fakeService struct {
	headgatev1.UnimplementedRateLimiterServer
	quota int64

	noStreams     atomic.Bool // BatchStream is not implemented, as in older services
	silent        atomic.Bool // requests get no response
	extraResponse atomic.Bool // the next batch on a stream gets one response too many

	batches atomic.Int64 // received as unary calls
	streams atomic.Int64 // opened by clients

	mu    sync.Mutex
	taken map[string]int64 // by user
}

func newFakeService(quota int64) *fakeService {
	return &fakeService{quota: quota, taken: make(map[string]int64)}
}

// client serves until the test ends, and returns a client.
func (s *fakeService) client(t testing.TB, dial ...grpc.DialOption) *Client {
	t.Helper()
	server := grpc.NewServer()
	headgatev1.RegisterRateLimiterServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return newClient(t, Options{Address: listener.Addr().String(), Deadline: patience, Dial: dial})
}

// newClient returns a client that is closed with the test.
func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (s *fakeService) decide(q *headgatev1.RateLimitRequest) *headgatev1.RateLimitResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	user := q.GetClient().GetUserId()
	passed := s.taken[user] < s.quota
	if passed {
		s.taken[user]++
	}
	return &headgatev1.RateLimitResponse{Passed: passed, Limit: s.quota, RemainingRequests: s.quota - s.taken[user]}
}

func (s *fakeService) RateLimit(
	ctx context.Context, q *headgatev1.RateLimitRequest,
) (*headgatev1.RateLimitResponse, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.decide(q), nil
}

func (s *fakeService) BatchRateLimit(
	ctx context.Context, q *headgatev1.BatchRateLimitRequest,
) (*headgatev1.BatchRateLimitResponse, error) {
	s.batches.Add(1)
	return s.decideAll(ctx, q)
}

func (s *fakeService) decideAll(
	ctx context.Context, q *headgatev1.BatchRateLimitRequest,
) (*headgatev1.BatchRateLimitResponse, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	responses := new(headgatev1.BatchRateLimitResponse)
	for _, request := range q.Requests {
		responses.Responses = append(responses.Responses, s.decide(request))
	}
	return responses, nil
}

func (s *fakeService) BatchStream(
	stream grpc.BidiStreamingServer[headgatev1.BatchRateLimitRequest, headgatev1.BatchRateLimitResponse],
) error {
	if s.noStreams.Load() {
		return s.UnimplementedRateLimiterServer.BatchStream(stream)
	}
	s.streams.Add(1)
	for {
		q, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has ended the stream
		}
		responses, err := s.decideAll(stream.Context(), q)
		if err != nil {
			return err
		}
		if s.extraResponse.Swap(false) {
			responses.Responses = append(responses.Responses, responses.Responses[0])
		}
		if err := stream.Send(responses); err != nil {
			return err
		}
	}
}

// silentAddress returns the address of a service that accepts connections and never sends anything.
func silentAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
