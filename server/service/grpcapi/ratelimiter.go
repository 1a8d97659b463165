package grpcapi

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// rateLimiterDesc describes the service. Its messages are decoded without generated code, to save allocations.
var rateLimiterDesc = grpc.ServiceDesc{
	ServiceName: headgatev1.RateLimiter_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Metadata:    headgatev1.RateLimiter_ServiceDesc.Metadata,
	Methods: []grpc.MethodDesc{
		{MethodName: "RateLimit", Handler: handleRateLimit},
		{MethodName: "BatchRateLimit", Handler: handleBatch},
		{MethodName: "Release", Handler: handleRelease},
		{MethodName: "Renew", Handler: handleRenew},
	},
	Streams: []grpc.StreamDesc{
		{StreamName: "Stream", Handler: handleStream, ServerStreams: true, ClientStreams: true},
		{StreamName: batchStream, Handler: handleBatches, ServerStreams: true, ClientStreams: true},
	},
}

func (s *Server) makePools() {
	s.decisions.New = func() any { return newDecision() }
	s.groups.New = func() any { return &batchGroup{decision: newDecision()} }
	s.calls.New = func() any { return &rateLimitCall{server: s, decision: newDecision()} }
	s.batches.New = func() any {
		return &batchCall{server: s, request: wirev1.BatchRateLimitRequest{Max: s.config.MaxBatch}}
	}
	s.streamMessages.New = func() any { return &streamMessage{decision: newDecision()} }
	s.storeCalls.New = func() any { return &storeCall{server: s, request: wirev1.DoRequest{Max: s.config.MaxBatch}} }
}

// A rateLimitCall is a RateLimit call. It is the request message and the response message. It is reused after the
// response was encoded, because gRPC encodes each response once and does not keep it.
type rateLimitCall struct {
	server   *Server
	request  wirev1.RateLimitRequest
	decision *decision
}

func (c *rateLimitCall) MarshalWire(dst []byte) ([]byte, error) {
	dst, err := c.decision.response.MarshalWire(dst)
	c.release()
	return dst, err
}

func (c *rateLimitCall) release() {
	if c.request.BufferSize() <= maxPooledBytes {
		c.server.calls.Put(c)
	}
}

// UnmarshalWire reads the request.
func (c *rateLimitCall) UnmarshalWire(b []byte) error { return c.request.UnmarshalWire(b) }

//nolint:revive // gRPC wants ctx second
func handleRateLimit(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Server)
	c := s.calls.Get().(*rateLimitCall)
	err := decode(c)
	if err == nil {
		if err = s.decide(ctx, &c.request, c.decision, s.config.Now()); err != nil {
			err = s.statusOf(err)
		}
	}
	if err == nil && ctx.Err() != nil {
		s.withdraw(c.decision)
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// A batchCall is a BatchRateLimit call. Like a rateLimitCall, it is both the request and the response message.
type batchCall struct {
	server  *Server
	request wirev1.BatchRateLimitRequest
	out     []byte
}

// The maximum sizes of calls and batches whose memory is reused. Otherwise a few large calls would occupy memory
// forever.
const (
	maxPooledBytes    = 64 << 10
	maxPooledRequests = 1000
)

func (c *batchCall) MarshalWire(dst []byte) ([]byte, error) {
	dst = append(dst, c.out...)
	c.release()
	return dst, nil
}

func (c *batchCall) UnmarshalWire(b []byte) error { return c.request.UnmarshalWire(b) }

func (c *batchCall) release() {
	if cap(c.out) <= maxPooledBytes && c.request.BufferSize() <= maxPooledBytes &&
		cap(c.request.Requests) <= maxPooledRequests {
		c.server.batches.Put(c)
	}
}

//nolint:revive // gRPC wants ctx second
func handleBatch(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Server)
	c := s.batches.Get().(*batchCall)
	err := decode(c)
	if err == nil {
		err = c.decide(ctx)
	}
	if err == nil && ctx.Err() != nil {
		c.freeSlots()
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// freeSlots frees the concurrency slots of responses that are not delivered. Units stay taken.
func (c *batchCall) freeSlots() {
	batch := wirev1.BatchRateLimitResponse{Max: len(c.request.Requests)}
	err := batch.UnmarshalWire(c.out)
	for i := range batch.Responses {
		if lease := batch.Responses[i].Lease; len(lease) > 0 {
			err = errors.Join(err, c.server.config.Engine.Release(context.Background(), string(lease)))
		}
	}
	if err != nil {
		c.server.logFault(err)
	}
}

// decide decides the requests of a batch.
func (c *batchCall) decide(ctx context.Context) error {
	s := c.server
	if c.request.TooMany {
		return status.Error(codes.InvalidArgument, "too many requests in the batch: want at most "+strconv.Itoa(
			s.config.MaxBatch))
	}
	c.out = c.out[:0]
	if s.config.Parallel == 1 || len(c.request.Requests) < 2 {
		for q := c.request.Requests; len(q) > 0; {
			n := min(len(q), engine.BatchSize)
			c.out = s.decideTogether(ctx, q[:n], c.out)
			q = q[n:]
		}
		return nil
	}
	responses := make([][]byte, len(c.request.Requests))
	s.parallel(len(responses), func(i int) {
		d := s.decisions.Get().(*decision)
		s.decideOrSetError(ctx, &c.request.Requests[i], d, s.config.Now())
		responses[i] = wirev1.AppendResponse(nil, &d.response)
		s.decisions.Put(d)
	})
	for _, response := range responses {
		c.out = append(c.out, response...)
	}
	return nil
}

// decideTogether decides up to engine.BatchSize requests in one batch of the engine, and appends the responses.
func (s *Server) decideTogether(ctx context.Context, requests []wirev1.RateLimitRequest, out []byte) []byte {
	g := s.groups.Get().(*batchGroup)
	defer s.groups.Put(g)
	d := g.decision
	for i := range requests {
		var options engine.DecideOptions
		if options, g.errs[i] = s.readRequest(&requests[i], d); g.errs[i] == nil {
			g.batch.Add(ctx, s.config.Engine, &d.attributes, &options)
		}
	}
	g.batch.Decide(ctx)
	now := s.config.Now() // read once, because reading the clock for each request would take too much time
	decided := 0
	for i := range requests {
		err := g.errs[i]
		if err == nil {
			var v *engine.Verdict
			v, err = g.batch.Verdict(decided)
			decided++
			if err == nil {
				d.setVerdict(v, now)
			}
		}
		if err != nil {
			s.setError(d, err)
		}
		out = wirev1.AppendResponse(out, &d.response)
	}
	g.batch.Clear()
	return out
}

// A batchGroup has the memory for decideTogether.
type batchGroup struct {
	decision *decision
	batch    engine.Batch
	errs     [engine.BatchSize]error // of requests that could not be read
}

// parallel calls do for 0 to n-1, concurrently if goroutines are available, and waits for all calls.
func (s *Server) parallel(n int, do func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			do(int(i))
		}
	}
	var group sync.WaitGroup
	defer group.Wait()
	for range min(s.config.Parallel, n) - 1 {
		if !s.tryGo(&group, work) {
			break
		}
	}
	work()
}

// tryGo runs do in a helper goroutine. It returns false if there are already maxHelpers.
func (s *Server) tryGo(group *sync.WaitGroup, do func()) bool {
	select {
	case s.helpers <- struct{}{}:
	default:
		return false
	}
	group.Go(func() {
		defer func() { <-s.helpers }()
		do()
	})
	return true
}

//nolint:revive // gRPC wants ctx second
func handleRelease(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request headgatev1.ReleaseRequest
	if err := decode(&request); err != nil {
		return nil, err
	}
	s := srv.(*Server)
	if err := s.config.Engine.Release(ctx, request.LeaseId); err != nil {
		return nil, s.leaseError(err, "the lease could not be released; it expires by itself")
	}
	return new(headgatev1.ReleaseResponse), nil
}

//nolint:revive // gRPC wants ctx second
func handleRenew(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request headgatev1.RenewRequest
	if err := decode(&request); err != nil {
		return nil, err
	}
	s := srv.(*Server)
	held, ttl, err := s.config.Engine.Renew(ctx, request.LeaseId)
	if err != nil {
		return nil, s.leaseError(err, "the lease could not be renewed; renew it again before it expires")
	}
	return &headgatev1.RenewResponse{Held: held, TtlMs: ttl.Milliseconds()}, nil
}

// leaseError returns the status of an error. A failure of the store is logged, and the caller gets storeFailed instead.
func (s *Server) leaseError(err error, storeFailed string) error {
	code, message, fault := codeOf(err)
	if fault {
		s.logFault(err)
		code, message = codes.Unavailable, storeFailed
	}
	return status.Error(code, message)
}
