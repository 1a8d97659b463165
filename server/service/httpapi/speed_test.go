package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/service/httpapi"
)

const usual = `{"ruleId":"per-user","client":{"userId":"alice","clientIP":"192.0.2.1"},"attributes":{"path":"/search"},"cost":1}`

// A discardWriter is a ResponseWriter that drops the body.
type discardWriter struct {
	header http.Header
	status int
	bytes  int
}

func (e *discardWriter) Header() http.Header { return e.header }
func (e *discardWriter) WriteHeader(s int)   { e.status = s }

func (e *discardWriter) Write(b []byte) (int, error) {
	e.bytes += len(b)
	return len(b), nil
}

// A rereadable is a body that can be read again.
type rereadable struct{ strings.Reader }

func (*rereadable) Close() error { return nil }

// caller returns a function that makes the same call repeatedly, without allocations.
func caller(h http.Handler, method, path, body string, header http.Header) func() int {
	r := &http.Request{
		Method: method, URL: &url.URL{Path: path}, Header: header, ContentLength: int64(len(body)), RemoteAddr: "127.0.0.1:5000",
		Host: "127.0.0.1",
	}
	from := &rereadable{}
	r.Body = from
	w := &discardWriter{header: make(http.Header)}
	return func() int {
		from.Reset(body)
		clear(w.header)
		w.status, w.bytes = 200, 0
		h.ServeHTTP(w, r)
		return w.status
	}
}

const speedRules = "rules: [{ id: per-user, key: user, limits: 1000000/s }]"

func TestDecisionAllocatesLittle(t *testing.T) {
	racing.Skip(t, "the race detector allocates")
	quiet := httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}
	for _, tt := range []struct {
		name string
		c    httpapi.Config
		call []string
		most float64
	}{
		{"untold", httpapi.Config{Fields: quiet}, []string{"POST", "/v1/ratelimit", usual}, 1},
		{"told", httpapi.Config{}, []string{"POST", "/v1/ratelimit", usual}, 4},
		{"with a token", httpapi.Config{Fields: quiet, Token: token(t)}, []string{"POST", "/v1/ratelimit", usual}, 1},
		{"a hundred in a batch", httpapi.Config{}, []string{"POST", "/v1/ratelimit:batch", "[" + strings.Repeat(usual+",", 99) + usual + "]"}, 8},
		{"forward-auth", httpapi.Config{Fields: quiet}, []string{"GET", "/v1/forward-auth", ""}, 4},
	} {
		a := newTimedAPI(t, speedRules, tt.c)
		header := http.Header{"Authorization": {"Bearer " + secret}, "X-Forwarded-Uri": {"/search"}, "X-Forwarded-Method": {"GET"}}
		call := caller(a, tt.call[0], tt.call[1], tt.call[2], header)
		if got := call(); got != 200 {
			t.Fatalf("%s: got %d, want 200", tt.name, got)
		}
		if got := testing.AllocsPerRun(200, func() { call() }); got > tt.most {
			t.Errorf("%s: got %v allocations, want at most %v", tt.name, got, tt.most)
		}
	}
}

func bench(b *testing.B, h http.Handler, path, body string) {
	call := caller(h, "POST", path, body, http.Header{})
	b.ReportAllocs()
	for b.Loop() {
		if call() != 200 {
			b.Fatal("it does not pass")
		}
	}
}

func BenchmarkSingle(b *testing.B) {
	bench(b, newTimedAPI(b, speedRules, httpapi.Config{}), "/v1/ratelimit", usual)
}

func BenchmarkSingleWithoutFields(b *testing.B) {
	c := httpapi.Config{Fields: httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}}
	bench(b, newTimedAPI(b, speedRules, c), "/v1/ratelimit", usual)
}

func BenchmarkBatchOf100(b *testing.B) {
	bench(b, newTimedAPI(b, speedRules, httpapi.Config{}), "/v1/ratelimit:batch", "["+strings.Repeat(usual+",", 99)+usual+"]")
}

// BenchmarkFloor is a handler that decodes and encodes the same JSON and decides nothing.
func BenchmarkFloor(b *testing.B) {
	type request struct {
		RuleID string `json:"ruleId"`
		Client struct {
			UserID   string `json:"userId"`
			ClientIP string `json:"clientIP"`
			APIKey   string `json:"apiKey"`
		} `json:"client"`
		Attributes map[string]string `json:"attributes"`
		Cost       *int64            `json:"cost"`
	}
	type answer struct {
		Passed            bool      `json:"passed"`
		Limit             int64     `json:"limit"`
		RemainingRequests int64     `json:"remainingRequests"`
		ResetTimestamp    time.Time `json:"resetTimestamp"`
		RetryAfterMs      int64     `json:"retryAfterMs"`
		DelayMs           int64     `json:"delayMs"`
		RuleID            string    `json:"ruleId"`
		Degraded          bool      `json:"degraded"`
	}
	bench(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Fatal(err)
		}
		var q request
		if err := json.Unmarshal(body, &q); err != nil {
			b.Fatal(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer{Passed: true, Limit: 10, RemainingRequests: 9, ResetTimestamp: time.Now(), RuleID: q.RuleID}); err != nil {
			b.Fatal(err)
		}
	}), "/v1/ratelimit", usual)
}

func BenchmarkForwardAuth(b *testing.B) {
	c := httpapi.Config{Fields: httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}}
	header := http.Header{"X-Forwarded-Uri": {"/search"}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-For": {"192.0.2.1"}}
	call := caller(newTimedAPI(b, speedRules, c), "GET", "/v1/forward-auth", "", header)
	b.ReportAllocs()
	for b.Loop() {
		if call() != 200 {
			b.Fatal("it does not pass")
		}
	}
}
