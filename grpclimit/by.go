package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bykey"
)

// A KeyLimiter limits gRPC calls without rules, by its interceptors Unary and Stream. Create one with [By]. It is safe
// for concurrent use.
type KeyLimiter struct {
	limiter headgate.Limiter
	limitOf func(ctx context.Context, method string) (key string, limit headgate.Limit)
	onError func(ctx context.Context, err error)
}

// Exempt is the limit that the function of [By] returns for calls that are not limited. Limiters do not accept it.
var Exempt = bykey.Exempt()

var (
	_ grpc.UnaryServerInterceptor  = (*KeyLimiter)(nil).Unary
	_ grpc.StreamServerInterceptor = (*KeyLimiter)(nil).Stream
)

// By returns a limiter that limits calls by a function instead of rules. limitOf returns the key and the limit of a
// call, given its method as /package.Service/Method. Each call takes one unit. Calls over the limit get
// ResourceExhausted with a google.rpc.RetryInfo, which is omitted if a retry is useless. Calls with an empty key share
// one counter, so that clients without a name are limited too. If limitOf returns [Exempt], the call is not limited.
// The zero Limit is refused: it may be from a map in which a plan is missing.
//
// A key has one limit. Interceptors with different limits that share a limiter need different keys: see
// [headgate.Bind].
//
// If the limiter fails, the call is allowed. To deny it instead, wrap the limiter in a guard with another policy. The
// status is Unavailable if the limiter is closed or overloaded, or the limit is invalid. It is InvalidArgument if the
// key is longer than [headgate.MaxKeyBytes].
//
// Under a concurrency limit, the slot is held and renewed until the handler returns. Under a leaky-bucket limit, the
// call waits for its turn. If its context ends first, the unit is given back.
func By(
	l headgate.Limiter, limitOf func(ctx context.Context, method string) (key string, limit headgate.Limit),
) *KeyLimiter {
	return &KeyLimiter{limiter: l, limitOf: limitOf, onError: bykey.LogErrors()}
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

// Stream is the interceptor for streams: grpc.StreamInterceptor(l.Stream). Each stream counts as one call.
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

// admit takes a unit for a call and waits for its turn. It returns the status of a denied call, or a function to call
// when the handler has returned.
func (l *KeyLimiter) admit(ctx context.Context, method string) (release func(), err error) {
	release = func() {}
	key, limit := l.limitOf(ctx, method)
	if limit == bykey.Exempt() { // not the variable Exempt, which another package could change
		return release, nil
	}
	check, err := bykey.NewCheck(key, limit)
	if err != nil {
		return nil, l.refusedStatus(ctx, method, err)
	}
	d, err := l.limiter.Take(ctx, check)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, canceledStatus(ctx, err)
	case err != nil && headgate.Open.Allows(err): // the store failed; calls with other errors are refused below
		l.onError(ctx, fmt.Errorf("allow %s without a decision: %w", method, err))
		return release, nil
	case err != nil:
		return nil, l.refusedStatus(ctx, method, err)
	case !d.Allowed:
		return nil, overLimitStatus(d)
	}
	admitted, err := bykey.Wait(ctx, l.limiter, check, d)
	if err != nil { // the call was canceled, and its unit could not be given back
		l.onError(ctx, fmt.Errorf("give back the unit of %s: %w", method, err))
	}
	if !admitted {
		return nil, canceledStatus(ctx, context.DeadlineExceeded)
	}
	if bykey.HoldsSlot(check, d) {
		free := bykey.Hold(ctx, l.limiter, check, d.Receipt)
		release = func() {
			if err := free(); err != nil {
				l.onError(ctx, fmt.Errorf("release the slot of %s: %w", method, err))
			}
		}
	}
	return release, nil
}

// refusedStatus returns the status of a call that the limiter cannot decide. A key that is too long is a mistake of the
// client: the status is InvalidArgument, and onError is not called. Otherwise the status is Unavailable.
func (l *KeyLimiter) refusedStatus(ctx context.Context, method string, err error) error {
	if errors.Is(err, bykey.ErrLongKey) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	l.onError(ctx, fmt.Errorf("refuse %s: %w", method, err))
	return status.Error(codes.Unavailable, "the rate limiter refused the call")
}

// overLimitStatus returns the status of a denied call.
func overLimitStatus(d headgate.Decision) error {
	if d.RetryAfter == headgate.Never {
		return status.Error(codes.ResourceExhausted, "the call costs more than the limit can ever grant")
	}
	st := status.New(codes.ResourceExhausted, "over the limit")
	if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
		st = detailed
	}
	return st.Err()
}
