package traces

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The headers of W3C Trace Context, in net/http's canonical form.
const (
	HeaderParent = "Traceparent"
	HeaderState  = "Tracestate"
)

// ReadsProxies reports whether the gateway continues only the traces of trusted proxies.
func (t *Tracer) ReadsProxies() bool { return t.parents == ParentsProxies }

// StartHTTP starts the span of a request that a server has received. If trusted is set, it continues the trace in the
// request's header. The span is never the zero Span, but it records nothing if the request is not sampled.
func (t *Tracer) StartHTTP(r *http.Request, name string, trusted bool) (context.Context, Span) {
	ctx := r.Context()
	if trusted && t.parents != ParentsNone {
		ctx = t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		// Do not add the query and the header, which often have secrets.
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("url.path", shortPath(r)),
			attribute.String("url.scheme", scheme), attribute.String("server.address", r.Host))
	}
	return ctx, Span{span}
}

// maxPath is the maximum size of a path in a span, in bytes.
const maxPath = 256

func shortPath(r *http.Request) string {
	return r.URL.Path[:min(len(r.URL.Path), maxPath)]
}

// EndHTTP ends the span of a request with the status of its response, 0 if there was none.
func (s Span) EndHTTP(status int) {
	if s.span == nil {
		return
	}
	if s.span.IsRecording() {
		if status != 0 {
			s.SetInt("http.response.status_code", int64(status))
		}
		if status == 0 || status >= http.StatusInternalServerError {
			s.Fail(http.StatusText(status))
		}
	}
	s.span.End()
}

// StartUpstream starts the span of an attempt to send a request to an upstream. It returns the zero Span if the request
// in ctx is not sampled.
func (t *Tracer) StartUpstream(ctx context.Context, url string) (context.Context, Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, Upstream, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("headgate.upstream", url)))
	return ctx, Span{span}
}

// Headers returns the values of HeaderParent and HeaderState with which an upstream continues the trace of ctx. Empty
// values must not be sent.
func (t *Tracer) Headers(ctx context.Context) (parent, state string) {
	carrier := headerPair{}
	t.context.Inject(ctx, &carrier)
	return carrier.parent, carrier.state
}

// A headerPair is a carrier to which both headers are written.
type headerPair struct{ parent, state string }

var _ propagation.TextMapCarrier = (*headerPair)(nil)

// Get returns "", because the pair is only written.
func (*headerPair) Get(string) string { return "" }

// Keys returns nil, because the pair is only written.
func (*headerPair) Keys() []string { return nil }

// Set sets a header.
func (p *headerPair) Set(name, value string) {
	switch http.CanonicalHeaderKey(name) {
	case HeaderParent:
		p.parent = value
	case HeaderState:
		p.state = value
	}
}

// A StatusWriter is a ResponseWriter that remembers the status of the response.
type StatusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap returns the wrapped ResponseWriter, for http.ResponseController.
func (w *StatusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header with a status.
func (w *StatusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *StatusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Status returns the status of a response whose handler has returned.
func (w *StatusWriter) Status() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}
