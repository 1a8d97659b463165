package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
)

// A KeyLimiter limits gRPC calls without rules, by its interceptors Unary and Stream. Create one with [By]. It is safe
// for concurrent use.
type KeyLimiter struct {
	limiter headgate.Limiter
	of      func(ctx context.Context, method string) (key string, limit headgate.Limit)
}

var (
	_ grpc.UnaryServerInterceptor  = (*KeyLimiter)(nil).Unary
	_ grpc.StreamServerInterceptor = (*KeyLimiter)(nil).Stream
)

// By returns a limiter without rules: of returns the key and the limit of a call, whose method is
// /package.Service/Method, and each call takes one unit. Calls over the limit get ResourceExhausted with a
// google.rpc.RetryInfo, which is omitted if no waiting helps. Calls with an empty key share one counter, so that a
// client without a name is limited too. The zero Limit exempts a call.
//
// A key has one limit: interceptors with different limits over one limiter need different keys, as [headgate.Bind] says.
//
// A call passes if the limiter fails; put a guard in front of it to decide otherwise. It gets Unavailable if the
// limiter is closed or overloaded, or the limit is invalid. Under a concurrency limit the slot is held until the
// handler returns, for at most the limit's TTL.
func By(
	l headgate.Limiter, of func(ctx context.Context, method string) (key string, limit headgate.Limit),
) *KeyLimiter {
	return &KeyLimiter{limiter: l, of: of}
}

// Unary is the interceptor for calls with one request and one response: grpc.UnaryInterceptor(l.Unary).
func (l *KeyLimiter) Unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	release, err := l.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer release()
	return handler(ctx, req)
}

// Stream is the interceptor for streams, each of which is one call: grpc.StreamInterceptor(l.Stream).
func (l *KeyLimiter) Stream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	release, err := l.admit(ss.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	defer release()
	return handler(srv, ss)
}

// noKey is the key of calls without one.
const noKey = "-"

// admit takes a unit for a call. It returns the status of a denied call, or a function to call when the handler has
// returned.
func (l *KeyLimiter) admit(ctx context.Context, method string) (release func(), err error) {
	key, limit := l.of(ctx, method)
	if limit == (headgate.Limit{}) {
		return func() {}, nil
	}
	check := headgate.Check{Key: cmp.Or(key, noKey), Limit: limit, Cost: 1}
	d, err := l.limiter.Take(ctx, check)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, canceled(ctx, err)
	case err != nil:
		slog.WarnContext(ctx, "cannot decide a call", "method", method, "err", err)
		if !headgate.Open.Allows(err) {
			return nil, status.Error(codes.Unavailable, "the rate limiter refused the call")
		}
	case !d.Allowed:
		return nil, overLimit(d)
	case limit.Algorithm == headgate.Concurrency && d.Receipt.Units > 0:
		return func() {
			if err := l.limiter.Give(context.WithoutCancel(ctx), check, d.Receipt); err != nil && !errors.Is(err, headgate.ErrClosed) {
				slog.WarnContext(ctx, "cannot release the slot of a call", "method", method, "err", err)
			}
		}, nil
	}
	return func() {}, nil
}

// overLimit returns the status of a denied call.
func overLimit(d headgate.Decision) error {
	if d.RetryAfter == headgate.Never {
		return status.Error(codes.ResourceExhausted, "the call costs more than the limit can ever grant")
	}
	st := status.New(codes.ResourceExhausted, "over the limit")
	if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
		st = detailed
	}
	return st.Err()
}
