package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/attempts"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// A traffic counts what travels on streams.
type traffic struct{ streams, sent atomic.Int64 }

func (n *traffic) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
		n.streams.Add(1)
		s, err := next(ctx, desc, conn, method, o...)
		if err != nil {
			return nil, err
		}
		return &counted{s, n}, nil
	})
}

type counted struct {
	grpc.ClientStream
	n *traffic
}

func (c *counted) SendMsg(m any) error {
	c.n.sent.Add(1)
	return c.ClientStream.SendMsg(m)
}

// crowd has many goroutines ask at once, each of them so often.
func crowd(goroutines, each int, ask func(g, i int)) {
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				ask(g, i)
			}
		})
	}
	group.Wait()
}

func TestGroupsTravelOnStreamsThatStayAndEachGetsItsOwnAnswers(t *testing.T) {
	var n traffic
	var alone atomic.Int64
	c := newHost(t, nil, grpcapi.Config{}).client(Options{Dial: []grpc.DialOption{n.option(), counting(&alone)}})
	const goroutines, each = 64, 60
	crowd(goroutines, each, func(g, i int) {
		user := fmt.Sprint("user", g, "-", i/4)
		got, err := c.RateLimit(t.Context(), asks(user, "/api/x"))
		if want := i%4 < 3; err != nil || got.Degraded || got.Passed != want || want && got.Remaining != int64(2-i%4) {
			t.Errorf("%s for the %dth time: got %+v, %v", user, i%4+1, got, err)
		}
	})
	if n.streams.Load() == 0 || n.sent.Load() < 2*n.streams.Load() {
		t.Errorf("%d groups on %d streams: want many on few", n.sent.Load(), n.streams.Load())
	}
	if got := n.sent.Load() + alone.Load(); got > goroutines*each/2 {
		t.Errorf("%d calls for %d decisions: want them to travel together", got, goroutines*each)
	}
	until(t, "over", func() bool { // streams that are not used, and those who use them
		c.rules.mu.Lock()
		defer c.rules.mu.Unlock()
		return c.rules.senders == 0
	})
}

// An older service knows calls alone.
type older struct {
	headgatev1.UnimplementedRateLimiterServer
	batches atomic.Int64
}

func (*older) RateLimit(context.Context, *headgatev1.RateLimitRequest) (*headgatev1.RateLimitResponse, error) {
	return &headgatev1.RateLimitResponse{Passed: true, Limit: 9}, nil
}

func (s *older) BatchRateLimit(_ context.Context, q *headgatev1.BatchRateLimitRequest) (*headgatev1.BatchRateLimitResponse, error) {
	s.batches.Add(1)
	a := new(headgatev1.BatchRateLimitResponse)
	for range q.Requests {
		a.Responses = append(a.Responses, &headgatev1.RateLimitResponse{Passed: true, Limit: 9})
	}
	return a, nil
}

// listen serves with gRPC until the test ends.
func listen(t *testing.T, server *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestAServiceThatKnowsNoStreamsIsCalled(t *testing.T) {
	var n traffic
	service := new(older)
	c := clientOf(t, service, n.option())
	crowd(32, 30, func(_, _ int) {
		if got, err := c.RateLimit(t.Context(), Request{User: "a"}); err != nil || !got.Passed || got.Degraded || got.Limit != 9 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	if service.batches.Load() == 0 {
		t.Error("none travelled together")
	}
	if n.streams.Load() > 2*maxCalls {
		t.Errorf("%d streams were tried, want none any more once one was refused", n.streams.Load())
	}
}

// A server that is told to stop has read a group, and answers it, or it has not, and another gets it.
func TestAServerThatGoesAwayLosesNobody(t *testing.T) {
	first, second := newHost(t, nil, grpcapi.Config{}), newHost(t, nil, grpcapi.Config{})
	var at atomic.Pointer[string]
	at.Store(&first.address)
	c := first.client(Options{Dial: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *at.Load())
	})}})
	var asked atomic.Int64
	var stop atomic.Bool
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for !stop.Load() {
				if got, err := c.RateLimit(t.Context(), asks("a", "/wide")); err != nil || !got.Passed || got.Degraded {
					t.Errorf("after %d: got %+v, %v", asked.Load(), got, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	more := func(n int64) {
		until(t, "asked", func() bool { return asked.Load() > n || t.Failed() })
	}
	more(500)
	at.Store(&second.address)
	first.stop()
	more(asked.Load() + 500)
	stop.Store(true)
	group.Wait()
}

// Nothing answers here, whatever is called.
func silent(t *testing.T) string {
	t.Helper()
	return listen(t, grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		<-s.Context().Done()
		return s.Context().Err()
	})))
}

func TestGroupsKeepTheirDeadlineOnStreams(t *testing.T) {
	address := silent(t)
	attempts.OneOf(t, 5, func() error { // a machine that is busy may be late to send anything at all
		var n traffic
		c, err := New(Options{
			Address: address, Deadline: 200 * time.Millisecond, OnFailure: headgate.Closed, Logger: slog.New(slog.DiscardHandler),
			Dial: []grpc.DialOption{n.option()},
		})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		c.conn.Connect()
		until(t, "connected", func() bool { return c.conn.GetState() == connectivity.Ready })
		start := time.Now()
		crowd(64, 3, func(_, _ int) {
			if got, err := c.RateLimit(t.Context(), Request{User: "a"}); err != nil || got.Passed || !got.Degraded {
				t.Errorf("got %+v, %v; want the policy to decide", got, err)
			}
		})
		if took := time.Since(start); took > 20*time.Second {
			return fmt.Errorf("took %v, want about 400ms", took)
		}
		if n.sent.Load() == 0 {
			return errors.New("nothing was sent on a stream")
		}
		return nil
	})
}

func TestCloseEndsGroupsOnStreams(t *testing.T) {
	var n traffic
	c, err := New(Options{Address: silent(t), Deadline: patience, Dial: []grpc.DialOption{n.option()}})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			if _, err := c.RateLimit(t.Context(), Request{User: "a"}); !errors.Is(err, headgate.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
	until(t, "sent", func() bool { return n.sent.Load() > 0 })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
}
