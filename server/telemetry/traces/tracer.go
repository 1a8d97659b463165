package traces

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Parents are the callers whose traces are continued.
type Parents string

// The callers. A request of any other caller begins a new trace.
const (
	ParentsAll     Parents = "all"
	ParentsProxies Parents = "proxies" // on the gateway, only trusted proxies; elsewhere all
	ParentsNone    Parents = "none"
)

// Options configure a Tracer. The OTEL_ variables of the environment have further settings.
type Options struct {
	// Endpoint is the URL of the receiver: grpc://, grpcs://, http:// or https://. Default the receiver that the
	// environment names.
	Endpoint string
	// Sampler selects the requests that are traced. Default the sampler that the environment names.
	Sampler sdktrace.Sampler
	// Parents are the callers whose traces are continued. Default ParentsAll.
	Parents Parents
	// Version, Node and Region describe this process in every trace. The environment can add more.
	Version, Node, Region string
	// Logger logs failed exports, at most one per logEvery. Default slog.Default().
	Logger *slog.Logger
}

// A Tracer starts the spans of requests. Create it with Open. It is safe for concurrent use. A nil Tracer is off.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	parents  Parents
	context  propagation.TraceContext
	exporter *countingExporter
	ended    atomic.Int64 // number of sampled spans that have ended
}

// Open returns a Tracer. The receiver need not be reachable.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Parents == "" {
		o.Parents = ParentsAll
	}
	if o.Sampler == nil {
		var err error
		if o.Sampler, err = samplerFromEnv(); err != nil {
			return nil, err
		}
	}
	described, err := describe(ctx, &o)
	if err != nil {
		return nil, err
	}
	inner, err := newExporter(ctx, o.Endpoint)
	if err != nil {
		return nil, err
	}
	t := &Tracer{parents: o.Parents, exporter: &countingExporter{inner: inner, log: o.Logger}}
	// The queue is bounded. The OTEL_BSP_ variables set its size and times.
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(o.Sampler), sdktrace.WithResource(described),
		sdktrace.WithSpanProcessor(endCounter{ended: &t.ended}), sdktrace.WithBatcher(t.exporter),
	)
	t.tracer = t.provider.Tracer("github.com/headgate/headgate")
	return t, nil
}

// describe returns the attributes of this process. Attributes from the environment have precedence.
func describe(ctx context.Context, o *Options) (*resource.Resource, error) {
	own := []attribute.KeyValue{
		attribute.String("service.name", "headgate"), attribute.String("service.instance.id", o.Node),
	}
	if o.Version != "" {
		own = append(own, attribute.String("service.version", o.Version))
	}
	if o.Region != "" {
		own = append(own, attribute.String("cloud.region", o.Region))
	}
	return resource.New(ctx, resource.WithAttributes(own...), resource.WithFromEnv())
}

// closeTimeout is the timeout of the last export.
const closeTimeout = 2 * time.Second

// Close exports the spans in the queue, for at most closeTimeout. The Tracer must not be used after Close.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// Stats counts spans.
type Stats struct {
	// Ended counts all sampled spans that have ended. Exported counts the spans that the receiver has accepted, and Failed
	// the spans that could not be sent. The others are in the queue, or were dropped because the queue was full.
	Ended, Exported, Failed int64
}

// Stats returns the current counts.
func (t *Tracer) Stats() Stats {
	s := Stats{Exported: t.exporter.exported.Load(), Failed: t.exporter.failed.Load()}
	s.Ended = t.ended.Load() // read last, so that it is not less than the others
	return s
}

// An endCounter counts the sampled spans that end.
type endCounter struct{ ended *atomic.Int64 }

var _ sdktrace.SpanProcessor = endCounter{}

// OnStart does nothing.
func (endCounter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd counts a span.
func (c endCounter) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		c.ended.Add(1)
	}
}

// Shutdown does nothing.
func (endCounter) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing.
func (endCounter) ForceFlush(context.Context) error { return nil }
