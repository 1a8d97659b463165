package httpapi_test

import (
	"context"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/service/httpapi"
)

// Too many requests at once are refused with 503. The rule's on_failure does not decide them.
func TestOverloadIsRefusedWithRetryAfter(t *testing.T) {
	a := newAPI(t, "rules: [{ id: all, limits: 1/h, on_failure: open }]", httpapi.Config{})
	a.store.OnTakeAll = func(context.Context) error { return headgate.ErrOverloaded }
	for _, tt := range []struct{ method, path, body, has string }{
		{"POST", "/v1/ratelimit", `{}`, `"passed":false`},
		{"GET", "/v1/forward-auth", "", ""},
	} {
		r := a.call(tt.method, tt.path, tt.body)
		got := text(t, r)
		if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || !strings.Contains(got, tt.has) {
			t.Errorf("%s: got %d, Retry-After %q, %s; want 503 after 1 second with %s",
				tt.path, r.StatusCode, r.Header.Get("Retry-After"), got, tt.has)
		}
		if strings.Contains(got, `"degraded":true`) {
			t.Errorf("%s: got %s, want a decision that is not degraded", tt.path, got)
		}
	}
	a.wants(t, 200, `"reason":"overloaded","httpStatus":503`, "POST", "/v1/ratelimit:batch", "[{}]")
}
