package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/internal/otlptest"
)

// The trace of a caller.
const (
	callerTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan   = "00f067aa0ba902b7"
	callerParent = "00-" + callerTrace + "-" + callerSpan + "-01"
)

const tracedRules = "rules: [{ id: per-ip, key: [ip], limits: [1/h] }, { id: per-user, key: [user], limits: [1/h] }]\n"

// runTraced runs a node with these flags until the returned function is called, which exports the last spans.
func runTraced(t *testing.T, flags map[string]string) (n *Node, stop func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(tracedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"rules": path, "node-id": "node-a", "region": "eu"}
	for name, value := range flags {
		given[name] = value
	}
	n, err := Open(context.Background(), load(t, given), Options{Logger: quiet(), Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	return n, func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// recordingUpstream starts an upstream and returns its URL and the header of its last request.
func recordingUpstream(t *testing.T) (url string, header *http.Header) {
	t.Helper()
	header = new(http.Header)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { *header = r.Header.Clone() }))
	t.Cleanup(s.Close)
	return s.URL, header
}

// send sends a request with a traceparent, unless that is empty, and returns the status of the response.
func send(t *testing.T, method, url, body, parent string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if parent != "" {
		r.Header.Set("traceparent", parent)
		r.Header.Set("tracestate", "vendor=1")
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestTraceOfGatewayRequest(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			receiver := otlptest.Start(t)
			to := map[string]string{"grpc": receiver.GRPC, "http": receiver.HTTP}[protocol]
			upstream, header := recordingUpstream(t)
			n, stop := runTraced(t, map[string]string{"traces": to, "upstream": upstream})
			send(t, http.MethodGet, "http://"+n.Listeners()["gateway"]+"/path?secret=1", "", callerParent)
			stop()

			request := receiver.Only("GET", callerSpan)
			if request.Trace != callerTrace || request.Kind != trace.Span_SPAN_KIND_SERVER || request.State != "vendor=1" {
				t.Errorf("got %+v, want a server span of the caller's trace", request)
			}
			if got := request.Attributes; got["url.path"] != "/path" || got["http.response.status_code"] != "int_value:200" {
				t.Errorf("got attributes %v, want the path and status 200", got)
			}
			if got := request.Resource; got["service.name"] != "headgate" || got["service.instance.id"] != "node-a" ||
				got["service.version"] != "1.2.3" || got["cloud.region"] != "eu" {
				t.Errorf("got resource %v", got)
			}
			receiver.Only("identify", request.ID)
			if got := receiver.Only("match", request.ID).Attributes["headgate.rules"]; got != "int_value:2" {
				t.Errorf("got %s rules, want 2: per-user counts clients without a user by ip", got)
			}
			take := receiver.Only("take", request.ID)
			if take.Attributes["headgate.rule"] != "per-ip" || take.Attributes["headgate.verdict"] != "allow" {
				t.Errorf("got attributes %v of take", take.Attributes)
			}
			sent := receiver.Only("upstream", request.ID)
			if sent.Kind != trace.Span_SPAN_KIND_CLIENT || sent.Attributes["headgate.upstream"] != upstream {
				t.Errorf("got %+v, want a client span", sent)
			}
			if got, want := header.Get("traceparent"), "00-"+callerTrace+"-"+sent.ID+"-01"; got != want {
				t.Errorf("the upstream got traceparent %q, want %q", got, want)
			}
			if got := header.Get("tracestate"); got != "vendor=1" {
				t.Errorf("the upstream got tracestate %q", got)
			}
			if got := len(receiver.Spans()); got != 5 {
				t.Errorf("got %d spans, want 5: %+v", got, receiver.Spans())
			}
		})
	}
}

func TestTraceOfDeniedRequestHasNoUpstream(t *testing.T) {
	receiver := otlptest.Start(t)
	upstream, _ := recordingUpstream(t)
	n, stop := runTraced(t, map[string]string{"traces": receiver.GRPC, "upstream": upstream})
	url := "http://" + n.Listeners()["gateway"]
	send(t, http.MethodGet, url, "", "")
	if got := send(t, http.MethodGet, url, "", callerParent); got != http.StatusTooManyRequests {
		t.Fatalf("got status %d, want 429", got)
	}
	stop()
	request := receiver.Only("GET", callerSpan)
	take := receiver.Only("take", request.ID)
	if take.Attributes["headgate.verdict"] != "reject" || take.Attributes["headgate.reason"] != "over limit" {
		t.Errorf("got attributes %v of take", take.Attributes)
	}
	for _, s := range receiver.Spans() {
		if s.Name == "upstream" && s.Parent == request.ID {
			t.Errorf("got %+v of a denied request", s)
		}
	}
	if request.Failed {
		t.Error("the span of a denied request has failed, want only statuses of 500 and above to fail")
	}
}

func TestTracesOfDecisionService(t *testing.T) {
	receiver := otlptest.Start(t)
	n, stop := runTraced(t, map[string]string{"traces": receiver.HTTP, "gateway-addr": "off"})
	api := "http://" + n.Listeners()["api"]
	send(t, http.MethodPost, api+"/v1/ratelimit", `{"client":{"userId":"ann"}}`, callerParent)
	send(t, http.MethodGet, api+"/v1/forward-auth", "", callerParent)
	callGRPC(t, n.Listeners()["grpc"])
	stop()
	for _, name := range []string{
		"POST /v1/ratelimit", "GET /v1/forward-auth", "headgate.v1.RateLimiter/RateLimit", "headgate.v1.RateLimiter/Stream",
	} {
		call := receiver.Only(name, callerSpan)
		for _, part := range []string{"identify", "match", "take"} {
			if s := receiver.Only(part, call.ID); s.Trace != callerTrace {
				t.Errorf("%s: got %s in trace %s, want %s", name, part, s.Trace, callerTrace)
			}
		}
	}
}

// callGRPC calls RateLimit, and sends a message of a stream.
func callGRPC(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", callerParent)
	client := headgatev1.NewRateLimiterClient(conn)
	request := &headgatev1.RateLimitRequest{Client: &headgatev1.Client{UserId: "ann"}}
	if _, err := client.RateLimit(ctx, request); err != nil {
		t.Fatal(err)
	}
	stream, err := client.Stream(ctx)
	if err == nil {
		err = stream.Send(&headgatev1.StreamRequest{Request: request})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnsampledTraceIsPassedOn(t *testing.T) {
	receiver := otlptest.Start(t)
	upstream, header := recordingUpstream(t)
	n, stop := runTraced(t, map[string]string{"traces": receiver.GRPC, "upstream": upstream, "traces-sample": "0"})
	url := "http://" + n.Listeners()["gateway"]
	unsampled := strings.TrimSuffix(callerParent, "01") + "00"
	send(t, http.MethodGet, url, "", unsampled)
	got := header.Get("traceparent")
	if !strings.HasPrefix(got, "00-"+callerTrace+"-") || !strings.HasSuffix(got, "-00") || got == unsampled {
		t.Errorf("the upstream got %q, want the caller's trace with another parent, not sampled", got)
	}
	stop()
	if spans := receiver.Spans(); len(spans) > 0 {
		t.Errorf("got %+v, want none", spans)
	}
}

func TestTracesOfUntrustedClientsAreNotContinued(t *testing.T) {
	for mode, proxies := range map[string]string{"proxies": "10.0.0.0/8", "none": "127.0.0.0/8"} {
		t.Run(mode, func(t *testing.T) {
			receiver := otlptest.Start(t)
			upstream, header := recordingUpstream(t)
			n, stop := runTraced(t, map[string]string{
				"traces": receiver.GRPC, "upstream": upstream, "traces-parents": mode, "trusted-proxies": proxies,
			})
			send(t, http.MethodGet, "http://"+n.Listeners()["gateway"], "", callerParent)
			stop()
			if s := receiver.Only("GET", ""); s.Trace == callerTrace {
				t.Errorf("got the caller's trace, want another")
			}
			if got := header.Get("tracestate"); got != "" || strings.Contains(header.Get("traceparent"), callerTrace) {
				t.Errorf("the upstream got the client's trace %q, state %q", header.Get("traceparent"), got)
			}
		})
	}
}

func TestTracesByEnvironment(t *testing.T) {
	receiver := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.HTTP)
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	n, stop := runTraced(t, nil)
	send(t, http.MethodGet, "http://"+n.Listeners()["gateway"], "", "")
	stop()
	if s := receiver.Only("GET", ""); s.Resource["service.name"] != "edge" {
		t.Errorf("got resource %v, want service.name edge", s.Resource)
	}
	n, stop = runTraced(t, map[string]string{"traces": "off"})
	defer stop()
	if n.tracer != nil {
		t.Error("traces are on, want --traces off to turn them off")
	}
}

func TestNodeStopsWithoutTraceReceiver(t *testing.T) {
	n, stop := runTraced(t, map[string]string{"traces": "grpc://127.0.0.1:1"})
	send(t, http.MethodGet, "http://"+n.Listeners()["gateway"], "", "")
	stop() // after 2 s, the bound of the last export
	if got := n.tracer.Stats(); got.Ended != 5 || got.Exported != 0 {
		t.Errorf("got %+v, want 5 spans, none exported", got)
	}
}
