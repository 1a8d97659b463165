// Package traces sends OpenTelemetry traces of requests to a receiver over OTLP.
//
// Each request has a span with child spans for its parts: identify, match, take and upstream. If the request has the
// header traceparent (W3C Trace Context), the spans belong to the trace of the caller. A nil Tracer is off and costs
// nothing.
package traces
