// Package traces sends OpenTelemetry traces of requests to a receiver over OTLP.
//
// A request has a span, and its parts have spans below it: identify, match, take and upstream. The trace of a caller
// that sends traceparent (W3C Trace Context) continues here. A nil Tracer is off, and costs nothing.
package traces
