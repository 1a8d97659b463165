package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

func TestStreamsRespondWithTheRequestID(t *testing.T) {
	for name, parallel := range map[string]int{"one by one": 1, "side by side": 8} {
		t.Run(name, func(t *testing.T) {
			_, address := start(t, Config{Parallel: parallel})
			stream, err := headgatev1.NewRateLimiterClient(dial(t, address)).Stream(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			const n = 500
			var group sync.WaitGroup
			group.Go(func() {
				for id := range uint64(n) {
					request := ask(fmt.Sprint("user", id%50), "/api/x")
					if id%10 == 9 {
						request = wrong["an unknown rule"].request
					}
					if err := stream.Send(&headgatev1.StreamRequest{Id: id << 40, Request: request}); err != nil {
						t.Error(err)
						return
					}
				}
				if err := stream.CloseSend(); err != nil {
					t.Error(err)
				}
			})
			answers, passed := map[uint64]bool{}, 0
			for {
				got, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				id := got.Id >> 40
				if answers[id] || got.Id&(1<<40-1) != 0 || id >= n {
					t.Fatalf("id %x: twice, or never asked", got.Id)
				}
				answers[id] = true
				switch {
				case id%10 == 9:
					if got.Response.Error.GetCode() != int32(codes.NotFound) {
						t.Errorf("%d: got %v, want NotFound", id, got.Response)
					}
				case got.Response.Error != nil || got.Response.Limit != 3:
					t.Errorf("%d: got %v, want a decision", id, got.Response)
				case got.Response.Passed:
					passed++
				}
			}
			group.Wait()
			if len(answers) != n || passed != 45*3 {
				t.Errorf("got %d answers of which %d passed, want %d and 3 of each of 45 clients", len(answers), passed, n)
			}
		})
	}
}

// A slowStore responds when it is released.
type slowStore struct {
	headgate.Limiter
	entered chan struct{}
	release chan struct{}
}

func (s *slowStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	s.entered <- struct{}{}
	<-s.release
	return s.Limiter.Take(ctx, c)
}

func (s *slowStore) TakeAll(ctx context.Context, c []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	s.entered <- struct{}{}
	<-s.release
	return s.Limiter.TakeAll(ctx, c, dst)
}

// With a remote store, requests of one stream and one batch are decided concurrently.
func TestRequestsOfOneCallAreDecidedConcurrently(t *testing.T) {
	store := &slowStore{newStore(t, nil), make(chan struct{}, 100), make(chan struct{})}
	_, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText)), Parallel: 4})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	all4 := func() {
		t.Helper()
		for i := range 4 {
			select {
			case <-store.entered:
			case <-time.After(patience):
				t.Fatalf("only %d of 4 were asked at once", i)
			}
		}
	}
	stream, err := limiter.Stream(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint64(4) {
		if err := stream.Send(&headgatev1.StreamRequest{Id: id, Request: ask(fmt.Sprint(id), "/api/x")}); err != nil {
			t.Fatal(err)
		}
	}
	all4()
	var group sync.WaitGroup
	group.Go(func() {
		batch := &headgatev1.BatchRateLimitRequest{}
		for i := range 4 {
			batch.Requests = append(batch.Requests, ask(fmt.Sprint(i), "/api/x"))
		}
		if got, err := limiter.BatchRateLimit(patient(t), batch); err != nil || len(got.Responses) != 4 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	all4()
	close(store.release)
	for range 4 {
		if got, err := stream.Recv(); err != nil || !got.Response.Passed {
			t.Errorf("got %v, %v; want it passed", got, err)
		}
	}
	group.Wait()
}

// batches opens a stream of batches.
func batches(t *testing.T, conn *grpc.ClientConn) *grpc.GenericClientStream[headgatev1.BatchRateLimitRequest, headgatev1.BatchRateLimitResponse] {
	t.Helper()
	desc := &grpc.StreamDesc{StreamName: batchStream, ServerStreams: true, ClientStreams: true}
	s, err := conn.NewStream(patient(t), desc, "/"+rateLimiterDesc.ServiceName+"/"+batchStream)
	if err != nil {
		t.Fatal(err)
	}
	return &grpc.GenericClientStream[headgatev1.BatchRateLimitRequest, headgatev1.BatchRateLimitResponse]{ClientStream: s}
}

func TestBatchStreamRespondsInOrder(t *testing.T) {
	for name, parallel := range map[string]int{"one by one": 1, "side by side": 8} {
		t.Run(name, func(t *testing.T) {
			_, address := start(t, Config{Parallel: parallel, MaxBatch: 10})
			conn := dial(t, address)
			stream := batches(t, conn)
			for n := range 10 {
				request := new(headgatev1.BatchRateLimitRequest)
				for i := range n {
					request.Requests = append(request.Requests, ask(fmt.Sprint("user", n, "-", i), "/api/x"))
				}
				request.Requests = append(request.Requests, wrong["an unknown rule"].request)
				if err := stream.Send(request); err != nil {
					t.Fatal(err)
				}
				got, err := stream.Recv()
				if err != nil || len(got.Responses) != n+1 {
					t.Fatalf("got %v, %v; want %d answers", got, err, n+1)
				}
				for i, answer := range got.Responses {
					if last := i == n; last && answer.Error.GetCode() != int32(codes.NotFound) || !last && (!answer.Passed || answer.RemainingRequests != 2) {
						t.Errorf("number %d of %d: got %v", i, n+1, answer)
					}
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want the end", err)
			}

			stream = batches(t, conn)
			many := new(headgatev1.BatchRateLimitRequest)
			for range 11 {
				many.Requests = append(many.Requests, ask("user", "/api/x"))
			}
			if err := stream.Send(many); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || len(stream.Trailer()[unreadTrailer]) > 0 {
				t.Errorf("too many: got %v and %v, want InvalidArgument", err, stream.Trailer())
			}
		})
	}
}

// A server that stops responds to the batch that it has read, and reports that it has read no other.
func TestBatchStreamEndsWithTheServer(t *testing.T) {
	store := &slowStore{newStore(t, nil), make(chan struct{}, 100), make(chan struct{})}
	s, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText))})
	conn := dial(t, address)
	idle, busy := batches(t, conn), batches(t, conn)
	one := &headgatev1.BatchRateLimitRequest{Requests: []*headgatev1.RateLimitRequest{ask("user", "/api/x")}}
	if err := busy.Send(one); err != nil {
		t.Fatal(err)
	}
	<-store.entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(patient(t)) }()
	end := func(of *grpc.GenericClientStream[headgatev1.BatchRateLimitRequest, headgatev1.BatchRateLimitResponse]) {
		t.Helper()
		if _, err := of.Recv(); status.Code(err) != codes.Unavailable || len(of.Trailer()[unreadTrailer]) != 1 {
			t.Errorf("got %v and %v, want Unavailable, and that nothing else was read", err, of.Trailer())
		}
	}
	end(idle)
	close(store.release)
	if got, err := busy.Recv(); err != nil || len(got.Responses) != 1 || !got.Responses[0].Passed {
		t.Errorf("got %v, %v; want the answer to what was read", got, err)
	}
	end(busy)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A client that sends and never reads costs what is in its buffers, and no more: the server stops reading.
func TestServerStopsReadingFromNonReadingClient(t *testing.T) {
	_, address := start(t, Config{})
	other := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := headgatev1.NewRateLimiterClient(dial(t, address)).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.RateLimit(patient(t), ask("ida", "/api/x")); err != nil { // the store makes room for its first key
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	request := &headgatev1.StreamRequest{Request: ask("harry", "/nothing/"+strings.Repeat("x", 1000))}
	sent := make(chan int, 1)
	go func() {
		n := 0
		for stream.Send(request) == nil {
			n++
		}
		sent <- n
	}()
	// It is blocked when nothing was sent for a while. The server has read and decided all that was sent.
	select {
	case n := <-sent:
		t.Fatalf("the stream ended after %d requests", n)
	case <-time.After(time.Second):
	}
	if got, err := other.RateLimit(patient(t), ask("ida", "/api/x")); err != nil || !got.Passed {
		t.Errorf("another client: got %v, %v; want it served", got, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// Most of it is the client's: thousands of small responses are in its buffers.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes, want a few buffers", grown)
	}
	cancel()
	if n := <-sent; n > 100_000 {
		t.Errorf("%d requests were taken from a client that reads nothing", n)
	}
}

func TestBrokenMessagesEndTheirCallAndNothingElse(t *testing.T) {
	_, address := start(t, Config{})
	conn := dial(t, address)
	limiter := headgatev1.NewRateLimiterClient(conn)
	stream, err := limiter.Stream(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, bytes := range map[string][]byte{
		"half a field": {0x0a, 9, 'x'}, "no field": {0}, "a group that does not end": {0x0b}, "not UTF-8": {0x0a, 1, 0xff},
		"a length beyond all": {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		err := conn.Invoke(patient(t), headgatev1.RateLimiter_RateLimit_FullMethodName, &junk{bytes}, &junk{}, forceWire)
		if code := status.Code(err); code != codes.Internal && code != codes.InvalidArgument {
			t.Errorf("%s: got %v, want that it cannot be read", name, err)
		}
	}
	if err := stream.Send(&headgatev1.StreamRequest{Id: 1, Request: ask("jack", "/api/x")}); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || !got.Response.Passed {
		t.Errorf("a stream of the same connection: got %v, %v; want an answer", got, err)
	}
}
