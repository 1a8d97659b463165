// Package otlptest has a receiver of OpenTelemetry traces for tests. It accepts traces over gRPC and HTTP, like a
// collector.
package otlptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// A Receiver accepts traces until the test ends.
type Receiver struct {
	collector.UnimplementedTraceServiceServer

	// GRPC and HTTP are the URLs of the receiver, for headgate serve --traces.
	GRPC, HTTP string

	t     testing.TB
	mu    sync.Mutex
	spans []Span
}

// A Span is a span that was received. Its ids are in hexadecimal.
type Span struct {
	Name, Trace, ID, Parent, State string
	Kind                           trace.Span_SpanKind
	Failed                         bool
	Attributes, Resource           map[string]string
}

// Start starts a receiver.
func Start(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := grpc.NewServer()
	collector.RegisterTraceServiceServer(calls, r)
	served := make(chan error, 1)
	go func() { served <- calls.Serve(l) }()
	web := httptest.NewServer(http.HandlerFunc(r.serveHTTP))
	r.GRPC, r.HTTP = "grpc://"+l.Addr().String(), web.URL
	t.Cleanup(func() {
		web.Close()
		calls.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // ErrServerStopped: stopped before Serve
			t.Errorf("receiver: %v", err)
		}
	})
	return r
}

// Export receives spans over gRPC.
func (r *Receiver) Export(
	_ context.Context, q *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	r.add(q)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *Receiver) serveHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path != "/v1/traces" || q.Method != http.MethodPost {
		http.NotFound(w, q)
		return
	}
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.add(&request)
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty message accepts everything
}

func (r *Receiver) add(q *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, group := range q.ResourceSpans {
		for _, scope := range group.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, Span{
					Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), State: s.TraceState, Kind: s.Kind,
					Failed:     s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR,
					Attributes: values(s.Attributes), Resource: values(group.GetResource().GetAttributes()),
				})
			}
		}
	}
}

func values(list []*common.KeyValue) map[string]string {
	result := make(map[string]string, len(list))
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			result[a.Key] = v.StringValue
		default:
			result[a.Key] = a.GetValue().String()
		}
	}
	return result
}

// Spans returns the spans that were received.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Only returns the span with the given name and parent. If there is not exactly one, it fails the test.
func (r *Receiver) Only(name, parent string) Span {
	r.t.Helper()
	var found []Span
	for _, s := range r.Spans() {
		if s.Name == name && s.Parent == parent {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("got %d spans %q below %q, want 1; all: %+v", len(found), name, parent, r.Spans())
	}
	return found[0]
}
