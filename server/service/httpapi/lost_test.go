package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/service/httpapi"
)

// A concurrency slot is freed if the caller disconnects before the response.
func TestSlotsOfUndeliveredResponsesAreFreed(t *testing.T) {
	const one = `{"ruleId":"jobs","client":{"userId":"kim"}}`
	for path, body := range map[string]string{
		"/v1/ratelimit":       one,
		"/v1/ratelimit:batch": `[{"ruleId":"none,\"leaseId\":\"x"},` + one + `,{"ruleId":"none"},` + one + `]`,
	} {
		for name, parallel := range map[string]int{"one by one": 1, "side by side": 4} {
			t.Run(path+" "+name, func(t *testing.T) {
				a := newAPI(t, "rules: [{ id: jobs, key: user, limits: 2 concurrent ttl 30s }]", httpapi.Config{Parallel: parallel})
				ctx, cancel := context.WithCancel(t.Context())
				a.inner.during = cancel
				r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
				w := httptest.NewRecorder()
				a.ServeHTTP(w, r)
				a.inner.during = nil
				if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "passed") {
					t.Errorf("got %d %s, want 503 and no decision", w.Code, w.Body)
				}
				if want := int64(strings.Count(body, "jobs")); a.store.Gives.Load() != want {
					t.Errorf("%d places were given back, want %d", a.store.Gives.Load(), want)
				}
				a.wants(t, 200, `"remainingRequests":1`, "POST", "/v1/ratelimit", one)
			})
		}
	}
}

// A caller that closes its sending side looks disconnected, but still waits for the response.
func TestHalfClosedCallersGetTheirResponse(t *testing.T) {
	const one = `{"ruleId":"posts","client":{"userId":"kim"}}`
	for path, body := range map[string]string{"/v1/ratelimit": one, "/v1/ratelimit:batch": "[" + one + "]"} {
		a := newAPI(t, "rules: [{ id: posts, key: user, limits: 2/h }]", httpapi.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		a.inner.during = cancel
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body)))
		if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, `"passed":true`) || !strings.Contains(got, `"remainingRequests":1`) {
			t.Errorf("%s: got %d %q, want what was decided", path, w.Code, got)
		}
	}
}
