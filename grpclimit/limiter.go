package grpclimit

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
)

// A Limiter limits gRPC calls by its interceptors Unary and Stream. Create one with New. It is safe for concurrent use.
type Limiter struct {
	config Config
	pool   sync.Pool // of *grpcCall
}

// New returns a Limiter.
func New(c Config) (*Limiter, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	l := &Limiter{config: c}
	l.pool.New = func() any { return new(grpcCall) }
	return l, nil
}

var (
	_ grpc.UnaryServerInterceptor  = (*Limiter)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Limiter)(nil).Stream
)

// A grpcCall is the state of one gRPC call. It is reused for other calls, so no part of it may be used after release.
type grpcCall struct {
	attributes identity.Attributes
	verdict    engine.Verdict
	served     bool // the handler has returned and did not panic
}

func (l *Limiter) release(c *grpcCall) {
	c.attributes.Reset() // so that the pool does not hold the metadata of old calls
	l.pool.Put(c)
}

// Unary is the interceptor for calls with one request and one response: grpc.UnaryInterceptor(l.Unary).
func (l *Limiter) Unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	c := l.pool.Get().(*grpcCall)
	fields, err := l.admit(ctx, info.FullMethod, c)
	if err != nil {
		l.release(c)
		l.reportUnsent(ctx, grpc.SetTrailer(ctx, fields))
		return nil, err
	}
	l.reportUnsent(ctx, grpc.SetHeader(ctx, fields))
	if !c.verdict.NeedsSettle() {
		l.release(c)
		return handler(ctx, req)
	}
	var sent *sentMetadata
	if c.verdict.ReadsResponse() {
		sent = new(sentMetadata)
		ctx = sent.record(ctx)
	}
	// Deferred, so that a call whose handler panics is settled too.
	c.served = false
	defer l.settle(ctx, info.FullMethod, c, sent)
	response, err := handler(ctx, req)
	c.served = true
	return response, err
}

// admit decides a call, and waits if the call is delayed. For a denied call, it returns the status as the error. The
// caller must send the fields as header if the call is allowed, and as trailer if it is denied.
func (l *Limiter) admit(ctx context.Context, method string, c *grpcCall) (fields metadata.MD, err error) {
	l.identify(ctx, method, c)
	if err := c.attributes.Validate(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := l.config.Engine.Decide(ctx, &c.attributes, &c.verdict); err != nil {
		return nil, l.undecided(ctx, method, err)
	}
	c.verdict.KeepSlots()
	return l.applyVerdict(ctx, &c.verdict)
}

// identify reads the attributes of the client into c.attributes.
func (l *Limiter) identify(ctx context.Context, method string, c *grpcCall) {
	md, _ := metadata.FromIncomingContext(ctx)
	call := identity.Call{Method: http.MethodPost, Path: method, Header: md} // gRPC requests are always POST
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		call.Peer = p.Addr.String()
	}
	if authority := md[":authority"]; len(authority) > 0 {
		call.Host = authority[0]
	}
	l.config.Identifier.ReadCall(&call, &c.attributes)
}

// applyVerdict returns the error of a denied call, and waits if the call is delayed.
func (l *Limiter) applyVerdict(ctx context.Context, v *engine.Verdict) (fields metadata.MD, err error) {
	retryAfter := l.config.Fields.RetryAfter(v)
	switch v.Action {
	case engine.Reject:
		return l.fields(v, retryAfter), denialStatus(v, retryAfter)
	case engine.Drop:
		return nil, errDropped
	case engine.Delay:
		if err := v.Wait(ctx); err != nil {
			return nil, canceledStatus(ctx, err)
		}
	}
	return l.fields(v, retryAfter), nil
}

// undecided handles an error of the engine. It reports the error and returns nil, which admits the call: a failing
// limiter should not block calls. If the call was cancelled, it returns the status for that.
func (l *Limiter) undecided(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		return canceledStatus(ctx, err)
	}
	l.config.OnError(ctx, fmt.Errorf("decide %s: %w", method, err))
	return nil
}

// fields returns the metadata for a verdict.
func (l *Limiter) fields(v *engine.Verdict, retryAfter time.Duration) metadata.MD {
	var buffer [8]httplimit.Field
	list := l.config.Fields.Append(buffer[:0], v, retryAfter, l.config.Now())
	if len(list) == 0 {
		return nil
	}
	md := make(metadata.MD, len(list))
	for _, f := range list {
		md[strings.ToLower(f.Name)] = []string{f.Value}
	}
	return md
}

// reportUnsent calls OnError if the header or trailer could not be set. A nil err means that it was set.
func (l *Limiter) reportUnsent(ctx context.Context, err error) {
	if err != nil {
		l.config.OnError(ctx, fmt.Errorf("send limit metadata: %w", err))
	}
}

// settle charges or refunds the cost that the response states, and releases the slots of the call.
func (l *Limiter) settle(ctx context.Context, method string, c *grpcCall, sent *sentMetadata) {
	settle := c.verdict.Settle
	if !c.served || ctx.Err() != nil { // the client did not wait for the whole response
		settle = c.verdict.SettleIncomplete
	}
	if err := settle(ctx, sent.value); err != nil {
		l.config.OnError(ctx, fmt.Errorf("settle %s: %w", method, err))
	}
	l.release(c)
}
