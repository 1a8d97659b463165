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
	"github.com/headgate/headgate/internal/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// rateLimiterDesc is the service with messages that read and write themselves, in place of the generated ones.
var rateLimiterDesc = grpc.ServiceDesc{
	ServiceName: headgatev1.RateLimiter_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Metadata:    headgatev1.RateLimiter_ServiceDesc.Metadata,
	Methods: []grpc.MethodDesc{
		{MethodName: "RateLimit", Handler: handleRateLimit},
		{MethodName: "BatchRateLimit", Handler: handleBatch},
		{MethodName: "Release", Handler: handleRelease},
	},
	Streams: []grpc.StreamDesc{
		{StreamName: "Stream", Handler: handleStream, ServerStreams: true, ClientStreams: true},
		{StreamName: batchStream, Handler: handleBatches, ServerStreams: true, ClientStreams: true},
	},
}

func (s *Server) makePools() {
	s.askers.New = func() any { return newAsker() }
	s.groups.New = func() any { return &group{asker: newAsker()} }
	s.calls.New = func() any { return &call{server: s, asker: newAsker()} }
	s.batches.New = func() any { return &batch{server: s, request: wirev1.BatchRateLimitRequest{Most: s.config.MaxBatch}} }
	s.streamed.New = func() any { return &streamed{asker: newAsker()} }
	s.doings.New = func() any { return &doing{server: s, request: wirev1.DoRequest{Most: s.config.MaxBatch}} }
}

// A call is a RateLimit. It is its own response, and used again for another call once that is written: gRPC writes each
// response once, and nobody has it after that.
type call struct {
	server  *Server
	request wirev1.RateLimitRequest
	asker   *asker
}

func (c *call) MarshalWire(dst []byte) ([]byte, error) {
	dst, err := c.asker.answer.MarshalWire(dst)
	c.release()
	return dst, err
}

func (c *call) release() {
	if c.request.Kept() <= keptBytes {
		c.server.calls.Put(c)
	}
}

// UnmarshalWire reads the request.
func (c *call) UnmarshalWire(b []byte) error { return c.request.UnmarshalWire(b) }

func handleRateLimit(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC wants ctx second
	s := srv.(*Server)
	c := s.calls.Get().(*call)
	err := decode(c)
	if err == nil {
		if err = s.decide(ctx, &c.request, c.asker, s.config.Now()); err != nil {
			err = s.statusOf(err)
		}
	}
	if err == nil && ctx.Err() != nil {
		s.withdraw(c.asker)
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// A batch is a BatchRateLimit. It is its own response, as a call is.
type batch struct {
	server  *Server
	request wirev1.BatchRateLimitRequest
	out     []byte
}

// Calls that were larger are not used again, so that what a few leave behind is not kept for many.
const (
	keptBytes    = 64 << 10
	keptRequests = 1000
)

func (c *batch) MarshalWire(dst []byte) ([]byte, error) {
	dst = append(dst, c.out...)
	c.release()
	return dst, nil
}

func (c *batch) UnmarshalWire(b []byte) error { return c.request.UnmarshalWire(b) }

func (c *batch) release() {
	if cap(c.out) <= keptBytes && c.request.Kept() <= keptBytes && cap(c.request.Requests) <= keptRequests {
		c.server.batches.Put(c)
	}
}

func handleBatch(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC wants ctx second
	s := srv.(*Server)
	c := s.batches.Get().(*batch)
	err := decode(c)
	if err == nil {
		err = c.decide(ctx)
	}
	if err == nil && ctx.Err() != nil {
		c.withdraw()
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// withdraw gives back the places that answers hold which nobody gets. Units stay taken.
func (c *batch) withdraw() {
	answers := wirev1.BatchRateLimitResponse{Most: len(c.request.Requests)}
	err := answers.UnmarshalWire(c.out)
	for i := range answers.Responses {
		if lease := answers.Responses[i].Lease; len(lease) > 0 {
			err = errors.Join(err, c.server.config.Engine.Release(context.Background(), string(lease)))
		}
	}
	if err != nil {
		c.server.fault(err)
	}
}

// decide decides the requests of a batch.
func (c *batch) decide(ctx context.Context) error {
	s := c.server
	if c.request.TooMany {
		return status.Error(codes.InvalidArgument, "more requests than one batch may have: want at most "+strconv.Itoa(s.config.MaxBatch))
	}
	c.out = c.out[:0]
	if s.config.Parallel == 1 || len(c.request.Requests) < 2 {
		for q := c.request.Requests; len(q) > 0; {
			some := min(len(q), engine.BatchSize)
			c.out = s.answerSome(ctx, q[:some], c.out)
			q = q[some:]
		}
		return nil
	}
	answers := make([][]byte, len(c.request.Requests))
	s.sideBySide(len(answers), func(i int) {
		a := s.askers.Get().(*asker)
		s.answer(ctx, &c.request.Requests[i], a, s.config.Now())
		answers[i] = wirev1.AppendResponse(nil, &a.answer)
		s.askers.Put(a)
	})
	for _, answer := range answers {
		c.out = append(c.out, answer...)
	}
	return nil
}

// answerSome decides requests that came together, and appends the answers.
func (s *Server) answerSome(ctx context.Context, some []wirev1.RateLimitRequest, out []byte) []byte {
	g := s.groups.Get().(*group)
	defer s.groups.Put(g)
	a := g.asker
	for i := range some {
		var terms engine.Terms
		if terms, g.errs[i] = s.read(&some[i], a); g.errs[i] == nil {
			g.batch.Add(ctx, s.config.Engine, &a.who, &terms)
		}
	}
	g.batch.Decide(ctx)
	now := s.config.Now() // what asking the clock takes adds up
	decided := 0
	for i := range some {
		err := g.errs[i]
		if err == nil {
			var v *engine.Verdict
			v, err = g.batch.Verdict(decided)
			decided++
			if err == nil {
				a.say(v, now)
			}
		}
		if err != nil {
			s.sayError(a, err)
		}
		out = wirev1.AppendResponse(out, &a.answer)
	}
	g.batch.Clear()
	return out
}

// A group is what is needed to decide some requests of a batch.
type group struct {
	asker *asker
	batch engine.Batch
	errs  [engine.BatchSize]error // of those that could not be read
}

// sideBySide does n things, several at once if there are goroutines left for it.
func (s *Server) sideBySide(n int, do func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			do(int(i))
		}
	}
	var group sync.WaitGroup
	defer group.Wait()
	for range min(s.config.Parallel, n) - 1 {
		if !s.help(&group, work) {
			break
		}
	}
	work()
}

// help lets a goroutine do something, unless there are too many already.
func (s *Server) help(group *sync.WaitGroup, do func()) bool {
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

func handleRelease(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC wants ctx second
	s := srv.(*Server)
	var request wirev1.Release
	if err := decode(&request); err != nil {
		return nil, err
	}
	err := s.config.Engine.Release(ctx, request.Lease)
	if err == nil {
		return new(wirev1.Nothing), nil
	}
	code, message, fault := codeOf(err)
	if fault {
		s.fault(err)
		code, message = codes.Unavailable, "the lease could not be released; it ends by itself when its time is over"
	}
	return nil, status.Error(code, message)
}
