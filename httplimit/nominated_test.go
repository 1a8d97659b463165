package httplimit_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// A header that Connection names is not seen by rules. If the handler saw it, a client could be one tenant to the
// service and none to the rules.
func TestAHeaderHiddenFromRulesIsHiddenFromTheHandler(t *testing.T) {
	byTenant := []rules.Rule{{
		ID: "tenant", Key: []headgate.Attribute{{Kind: headgate.AttrHeader, Name: "x-tenant"}},
		Fallback: rules.FallbackSkip, Limits: enginetest.Limits("1/h"),
	}}
	for _, test := range []struct{ connection, want string }{
		{"", "acme"},
		{"keep-alive", "acme"},
		{"close, Keep-Alive, TE", "acme"},
		{"X-Tenant", ""},
		{"keep-alive, x-tenant", ""},
	} {
		url := serve(t, newGate(t, byTenant, httplimit.Config{}).limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Header.Get("X-Tenant"))
		})))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tenant", "acme")
		if test.connection != "" {
			r.Header.Set("Connection", test.connection)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(body) != test.want {
			t.Errorf("Connection: %s: the handler saw tenant %q, %v, want %q", test.connection, body, err, test.want)
		}
	}
}
