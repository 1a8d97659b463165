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
	of      func(ctx context.Context, method string) (key string, limit headgate.Limit)
	onError func(ctx context.Context, err error)
}

// Exempt is the limit that the function of [By] returns for calls that are not limited. Limiters do not accept it.
var Exempt = bykey.Exempt()

var (
	_ grpc.UnaryServerInterceptor  = (*KeyLimiter)(nil).Unary
	_ grpc.StreamServerInterceptor = (*KeyLimiter)(nil).Stream
)

// By returns a limiter without rules: of returns the key and the limit of a call, whose method is
// /package.Service/Method, and each call takes one unit. Calls over the limit get ResourceExhausted with a
// google.rpc.RetryInfo, which is omitted if no waiting helps. Calls with an empty key share one counter, so that a
// client without a name is limited too. [Exempt] lets a call pass without a limit; the zero Limit, such as that of a
// plan that is missing in a map, is refused.
//
// A key has one limit: interceptors with different limits over one limiter need different keys, as [headgate.Bind]
// says.
//
// A call passes if the limiter fails; put a guard in front of it to decide otherwise. It gets Unavailable if the
// limiter is closed or overloaded, or the limit is invalid. It gets InvalidArgument if its key is longer than
// [headgate.MaxKeyBytes].
//
// Under a concurrency limit the slot is held, and renewed, until the handler returns. Under a leaky-bucket the call
// waits for its turn, or until its context ends, which gives the unit back.
func By(
	l headgate.Limiter, of func(ctx context.Context, method string) (key string, limit headgate.Limit),
) *KeyLimiter {
	return &KeyLimiter{limiter: l, of: of, onError: logError()}
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

// admit takes a unit for a call and waits for its turn. It returns the status of a denied call, or a function to call
// when the handler has returned.
func (l *KeyLimiter) admit(ctx context.Context, method string) (release func(), err error) {
	release = func() {}
	key, limit := l.of(ctx, method)
	if limit == bykey.Exempt() {
		return release, nil
	}
	check, err := bykey.NewCheck(key, limit)
	if err != nil {
		return nil, l.refused(ctx, method, err)
	}
	d, err := l.limiter.Take(ctx, check)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, canceled(ctx, err)
	case err != nil && headgate.Open.Allows(err):
		l.onError(ctx, fmt.Errorf("allow %s without a decision: %w", method, err))
		return release, nil
	case err != nil:
		return nil, l.refused(ctx, method, err)
	case !d.Allowed:
		return nil, overLimit(d)
	}
	waited, err := bykey.Wait(ctx, l.limiter, check, d)
	if err != nil {
		l.onError(ctx, fmt.Errorf("give back the unit of %s: %w", method, err))
	}
	if !waited {
		return nil, canceled(ctx, context.DeadlineExceeded)
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

// refused returns the status of a call that cannot be decided because of a mistake: that of the client is not reported.
func (l *KeyLimiter) refused(ctx context.Context, method string, err error) error {
	if errors.Is(err, bykey.ErrLongKey) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	l.onError(ctx, fmt.Errorf("refuse %s: %w", method, err))
	return status.Error(codes.Unavailable, "the rate limiter refused the call")
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
