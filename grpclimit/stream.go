package grpclimit

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Stream is the interceptor for streams: grpc.StreamInterceptor(l.Stream).
func (l *Limiter) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := ss.Context()
	c := l.pool.Get().(*grpcCall)
	fields, err := l.admit(ctx, info.FullMethod, c)
	if err != nil {
		l.release(c)
		ss.SetTrailer(fields)
		return err
	}
	l.reportUnsent(ctx, ss.SetHeader(fields))
	needsSettle := c.verdict.NeedsSettle()
	countsMessages := l.config.PerMessage && info.IsClientStream
	if !needsSettle && !countsMessages {
		l.release(c)
		return handler(srv, ss)
	}
	s := &stream{ServerStream: ss, limiter: l, ctx: ctx}
	if c.verdict.ReadsResponse() {
		s.sent = new(sentMetadata)
		s.ctx = s.sent.record(ctx)
	}
	if countsMessages {
		// Not from the pool: a goroutine of the handler may still receive messages after the handler has returned.
		s.messages = &grpcCall{}
		l.identify(ctx, info.FullMethod, s.messages)
	}
	if needsSettle {
		c.served = false
		defer l.settle(ctx, info.FullMethod, c, s.sent) // also if the handler panics
	} else {
		l.release(c)
	}
	err = handler(srv, s)
	if needsSettle {
		c.served = true
	}
	if denied := s.denied.Load(); denied != nil && err != nil {
		return *denied // the client must get the status of the denial, not the handler's error
	}
	return err
}

// A stream wraps a gRPC stream to record its metadata, from which the cost is settled at its end, or to count its
// messages.
type stream struct {
	grpc.ServerStream
	limiter  *Limiter
	ctx      context.Context
	sent     *sentMetadata         // nil if it is not needed
	messages *grpcCall             // nil if messages are not counted
	received bool                  // a message was received; the first one was counted when the stream opened
	denied   atomic.Pointer[error] // the status of a denied message
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SetHeader(md metadata.MD) error {
	s.sent.addHeader(md)
	return s.ServerStream.SetHeader(md)
}

func (s *stream) SendHeader(md metadata.MD) error {
	s.sent.addHeader(md)
	return s.ServerStream.SendHeader(md)
}

func (s *stream) SetTrailer(md metadata.MD) {
	s.sent.addTrailer(md)
	s.ServerStream.SetTrailer(md)
}

// RecvMsg receives a message, and decides it if messages are counted. After a denial, it returns the status of the
// denial.
func (s *stream) RecvMsg(m any) error {
	if denied := s.denied.Load(); denied != nil {
		return *denied
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || s.messages == nil {
		return err
	}
	if !s.received {
		s.received = true
		return nil
	}
	err := s.decide()
	if err != nil {
		s.denied.Store(&err)
	}
	return err
}

// decide takes the units of a message. It returns the status of a denied message.
func (s *stream) decide() error {
	l, v := s.limiter, &s.messages.verdict
	if err := l.config.Engine.DecideMore(s.ctx, &s.messages.attributes, v); err != nil {
		return l.undecided(s.ctx, "a message", err)
	}
	fields, err := l.applyVerdict(s.ctx, v)
	if err != nil {
		s.ServerStream.SetTrailer(fields)
		return err
	}
	if v.NeedsSettle() {
		if err := v.Settle(s.ctx, zeroCost); err != nil {
			l.config.OnError(s.ctx, fmt.Errorf("settle a message: %w", err))
		}
	}
	return nil
}

// zeroCost is the cost of a message under a rule whose cost is in the response: that cost is settled once, when the
// stream ends.
func zeroCost(string) string { return "0" }
