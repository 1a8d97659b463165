package traces

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newExporter returns an exporter to the receiver at endpoint or, if endpoint is empty, to the receiver that the
// environment names. It does not wait for a connection.
func newExporter(ctx context.Context, endpoint string) (*otlptrace.Exporter, error) {
	if endpoint == "" {
		protocol, err := protocolFromEnv()
		switch {
		case err != nil:
			return nil, err
		case protocol == protocolGRPC:
			return otlptracegrpc.New(ctx)
		default:
			return otlptracehttp.New(ctx)
		}
	}
	to, err := parseEndpoint(endpoint)
	switch {
	case err != nil:
		return nil, err
	case to.protocol == protocolGRPC:
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(to.url))
	default:
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to.url))
	}
}

// logEvery is the minimum time between two log lines about failed exports.
const logEvery = 30 * time.Second

// A countingExporter wraps another exporter. It counts spans and logs errors, which the SDK would print to standard
// error.
type countingExporter struct {
	inner            sdktrace.SpanExporter
	log              *slog.Logger
	exported, failed atomic.Int64
	lastLogged       atomic.Int64 // in nanoseconds since 1970
}

var _ sdktrace.SpanExporter = (*countingExporter)(nil)

// ExportSpans exports spans. It logs errors instead of returning them.
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.inner.ExportSpans(ctx, spans)
	if err == nil {
		e.exported.Add(int64(len(spans)))
		return nil
	}
	failed := e.failed.Add(int64(len(spans)))
	now, last := time.Now().UnixNano(), e.lastLogged.Load()
	if now-last >= int64(logEvery) && e.lastLogged.CompareAndSwap(last, now) {
		e.log.Warn("traces not exported, dropping spans", "err", err.Error(), "spans", failed)
	}
	return nil
}

// Shutdown closes the connection.
func (e *countingExporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }
