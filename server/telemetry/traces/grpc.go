package traces

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// StartCall starts the span of a gRPC call, or of a message of a stream, and continues the trace of the call's metadata.
// A nil Tracer returns the zero Span.
func (t *Tracer) StartCall(ctx context.Context, fullMethod string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok && t.parents != ParentsNone {
		ctx = t.context.Extract(ctx, metadataCarrier(md))
	}
	name := strings.TrimPrefix(fullMethod, "/")
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		service, method, _ := strings.Cut(name, "/")
		span.SetAttributes(attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service),
			attribute.String("rpc.method", method))
	}
	return ctx, Span{span}
}

// EndCall ends the span of a call or message with its error.
func (s Span) EndCall(err error) {
	if s.span == nil {
		return
	}
	if s.span.IsRecording() {
		code := status.Code(err)
		s.SetInt("rpc.grpc.status_code", int64(code))
		switch code {
		case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
			s.Fail(err.Error())
		}
	}
	s.span.End()
}

// CallHandler returns a handler that starts a span for every call of a gRPC server, except for methods for which skip
// returns true.
func (t *Tracer) CallHandler(skip func(fullMethod string) bool) stats.Handler {
	return &callHandler{tracer: t, skip: skip}
}

// A callHandler starts and ends the spans of calls.
type callHandler struct {
	tracer *Tracer
	skip   func(fullMethod string) bool
}

var _ stats.Handler = (*callHandler)(nil)

// spanKey is the context key of the Span that TagRPC starts and HandleRPC ends.
type spanKey struct{}

// TagRPC starts the span of a call.
func (h *callHandler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if h.skip(info.FullMethodName) {
		return ctx
	}
	ctx, span := h.tracer.StartCall(ctx, info.FullMethodName)
	return context.WithValue(ctx, spanKey{}, span)
}

// HandleRPC ends the span of a call that has ended.
func (h *callHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if end, ok := s.(*stats.End); ok {
		span, _ := ctx.Value(spanKey{}).(Span)
		span.EndCall(end.Error)
	}
}

// TagConn does nothing.
func (h *callHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (h *callHandler) HandleConn(context.Context, stats.ConnStats) {}

// A metadataCarrier is a carrier from which the trace of a call is read.
type metadataCarrier metadata.MD

var _ propagation.TextMapCarrier = metadataCarrier(nil)

// Get returns the first value of a name.
func (c metadataCarrier) Get(name string) string {
	if values := metadata.MD(c).Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set does nothing, because the metadata is only read.
func (c metadataCarrier) Set(string, string) {}

// Keys returns all names.
func (c metadataCarrier) Keys() []string {
	var names []string
	for name := range c {
		names = append(names, name)
	}
	return names
}
