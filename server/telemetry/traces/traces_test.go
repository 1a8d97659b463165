package traces_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/internal/otlptest"
	"github.com/headgate/headgate/server/telemetry/traces"
)

func request() *http.Request { return httptest.NewRequest(http.MethodGet, "/", http.NoBody) }

// record starts and ends n requests, and closes the tracer.
func record(t *testing.T, tracer *traces.Tracer, n int) {
	t.Helper()
	for range n {
		_, span := tracer.StartHTTP(request(), http.MethodGet, true)
		span.EndHTTP(http.StatusOK)
	}
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
}

func open(t *testing.T, o traces.Options) *traces.Tracer {
	t.Helper()
	tracer, err := traces.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func TestShareOfTracesIsSampled(t *testing.T) {
	receiver := otlptest.Start(t)
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10000") // none are dropped
	sampler, err := traces.ParseSampler("0.25")
	if err != nil {
		t.Fatal(err)
	}
	const requests = 4000
	record(t, open(t, traces.Options{Endpoint: receiver.GRPC, Sampler: sampler}), requests)
	// Six standard deviations are 164.
	if got := len(receiver.Spans()); got < 1000-164 || got > 1000+164 {
		t.Errorf("got %d spans of %d requests, want about 1000", got, requests)
	}
}

func TestEnvironmentSelectsSamplerAndProtocol(t *testing.T) {
	for _, test := range []struct {
		name, protocol, sampler, arg string
		spans                        int
		err                          string
	}{
		{name: "default", spans: 3},
		{name: "off", sampler: "always_off"},
		{name: "ratio", sampler: "parentbased_traceidratio", arg: "0"},
		{name: "grpc", protocol: "grpc", spans: 3},
		{name: "bad ratio", sampler: "traceidratio", arg: "2", err: `OTEL_TRACES_SAMPLER_ARG: "2" is not a sampling ratio`},
		{name: "bad sampler", sampler: "some", err: `OTEL_TRACES_SAMPLER "some": want always_on`},
		{name: "bad protocol", protocol: "http/json", err: `OTEL_EXPORTER_OTLP_PROTOCOL "http/json": want grpc`},
	} {
		t.Run(test.name, func(t *testing.T) {
			receiver := otlptest.Start(t)
			url := receiver.HTTP
			if test.protocol == "grpc" {
				url = strings.Replace(receiver.GRPC, "grpc://", "http://", 1)
			}
			for name, value := range map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": test.protocol,
				"OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.arg,
			} {
				if value != "" {
					t.Setenv(name, value)
				}
			}
			tracer, err := traces.Open(t.Context(), traces.Options{})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			record(t, tracer, 3)
			if got := len(receiver.Spans()); got != test.spans {
				t.Errorf("got %d spans, want %d", got, test.spans)
			}
		})
	}
}

func TestEnvironmentTurnsTracesOn(t *testing.T) {
	for _, test := range []struct {
		environ map[string]string
		want    bool
	}{
		{nil, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:4318/v1/traces"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318", "OTEL_SDK_DISABLED": "true"}, false},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range test.environ {
				t.Setenv(name, value)
			}
			if got := traces.ConfiguredByEnv(); got != test.want {
				t.Errorf("%v: got %t, want %t", test.environ, got, test.want)
			}
		})
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	for text, valid := range map[string]bool{
		"grpc://a:4317": true, "grpcs://a": true, "http://a:4318": true, "https://a/otlp": true, "http://[::1]:4318/": true,
		"a:4317": false, "": false, "grpc://": false, "ftp://a": false, "http://user:secret@a": false, "http://a?x=1": false,
	} {
		err := traces.CheckEndpoint(text)
		if valid != (err == nil) {
			t.Errorf("%q: got %v, want valid %t", text, err, valid)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the password: %v", text, err)
		}
	}
}

func TestFailedExportsAreLoggedOnce(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	var log bytes.Buffer
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	tracer := open(t, traces.Options{Endpoint: refusing.URL, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	record(t, tracer, 10)
	if got := strings.Count(log.String(), "traces not exported"); got != 1 {
		t.Errorf("got %d lines of 10 failed exports, want 1: %s", got, log.String())
	}
	if got := tracer.Stats(); got != (traces.Stats{Ended: 10, Failed: 10}) {
		t.Errorf("got %+v, want 10 failed", got)
	}
}

func TestFullQueueDropsSpansWithoutWaiting(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	tracer := open(t, traces.Options{Endpoint: hanging.URL, Logger: slog.New(slog.DiscardHandler)})
	for range 100 {
		_, span := tracer.StartHTTP(request(), http.MethodGet, true)
		span.EndHTTP(http.StatusOK)
	}
	if got := tracer.Stats(); got.Ended != 100 || got.Exported != 0 {
		t.Errorf("got %+v, want 100 spans that ended, while the receiver hangs", got)
	}
	if err := tracer.Close(); err == nil {
		t.Error("Close returns no error, want that the last spans were not exported in time")
	}
}

func TestNoTracerAllocatesNothing(t *testing.T) {
	var off *traces.Tracer
	ctx := context.Background()
	if got := testing.AllocsPerRun(100, func() {
		span := off.StartPart(ctx, traces.Identify)
		span.End()
		_, call := off.StartCall(ctx, "/a/b")
		call.EndCall(nil)
	}); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
	if off.Phases() != nil {
		t.Error("a nil Tracer has a TraceFunc, want none")
	}
}

func BenchmarkPart(b *testing.B) {
	sampler, err := traces.ParseSampler("0")
	if err != nil {
		b.Fatal(err)
	}
	unsampled, err := traces.Open(b.Context(), traces.Options{Endpoint: "grpc://127.0.0.1:1", Sampler: sampler})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unsampled.Close() }()
	b.Run("none", func(b *testing.B) { // the loop alone
		for b.Loop() {
		}
	})
	for name, tracer := range map[string]*traces.Tracer{"off": nil, "unsampled": unsampled} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			for b.Loop() {
				span := tracer.StartPart(ctx, traces.Identify)
				span.End()
			}
		})
	}
}
