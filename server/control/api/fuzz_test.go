package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/signature"
)

// Every request gets a response or a problem, and never an internal error.
func FuzzServe(f *testing.F) {
	s := open(f, api.Config{})
	for _, seed := range [][4]string{
		{"GET", "/v1/rules?limit=1", "", ""},
		{"PUT", "/v1/rules/a%2Fb", "\"1\"", searchRule},
		{"PATCH", "/v1/rules/search", "*", `{"limits":null}`},
		{"POST", "/v1/rules:apply?dry_run&prune", "W/\"1\", \"2\"", "rules: [{id: a}]"},
		{"POST", "/v1/clients:import", "", `{"clients":[{"id":"a"}]}`},
		{"POST", "/v1/overrides", "", `{"client":{"user":"a"},"for":"1h","block":true}`},
		{"POST", "/v1/explain", "", `{"attributes":{"user":"a"},"draft":{"id":"x","limits":["1/s"]}}`},
		{"POST", "/v1/tokens", "", `{"role":"viewer","namespaces":["*"]}`},
		{"GET", "/v1/revisions/1/diff?to=2", "", ""},
		{"GET", "/v1/revisions?cursor=djEgNA", "", ""},
		{"PUT", "/v1/nodes/n", "", `{"revision":1}`},
		{"GET", "/v1/keys?user=a", "", ""},
		{"GET", "/v1/snapshot?since=1", "\"1\"", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, method, target, match, body string) {
		if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/v1/watch") || strings.HasPrefix(target, "/v1/restore") {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+target, strings.NewReader(body))
		if err != nil {
			return
		}
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set("Authorization", "Bearer "+s.admin)
		r.Header.Set("If-Match", match)
		r.Header.Set("If-None-Match", match)
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusBadGateway { // invented nodes do not respond
			t.Errorf("%s %s: got %d %s", method, target, w.Code, w.Body)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d is no problem: %s", method, target, w.Code, w.Body)
		}
	})
}

// A webhook passes only if it was signed with the secret.
func FuzzVerifyHook(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	good := signature.Sign([]byte(hookSecret), []byte("{}"), now)
	f.Add(good, "{}")
	f.Add(good+",v1=00", "{}")
	f.Add("t=,v1=", "")
	f.Fuzz(func(t *testing.T, header, body string) {
		err := signature.Verify([]byte(hookSecret), header, []byte(body), now)
		_, sum, _ := strings.Cut(signature.Sign([]byte(hookSecret), []byte(body), now), ",v1=")
		if err == nil && !strings.Contains(strings.ToLower(header), sum) && strings.Contains(header, "t=1800000000") {
			t.Errorf("%q passes for %q", header, body)
		}
	})
}
