// Package exampletest tests the examples, whatever framework they use.
package exampletest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/memstore"
)

// Reports tests an example with the routes /healthz, which is not limited, and /api/reports/{id}, which allows each
// API key two requests and has no report 0. routes returns its handler, limited by the rules in a file.
func Reports(t *testing.T, routes func(store *memstore.Store, rules string) (http.Handler, error)) {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	handler, err := routes(store, "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, tt := range []struct {
		path, key string
		status    int
		remaining string // remaining units of the tightest limit; empty without a limit
		body      string // empty if it does not matter
	}{
		{"/api/reports/7", "alice", 200, "1", "report 7\n"},
		{"/api/reports/8", "alice", 200, "0", "report 8\n"},
		{"/api/reports/9", "alice", 429, "0", ""},
		{"/api/reports/7", "bob", 200, "1", "report 7\n"},
		{"/healthz", "alice", 200, "", "ok\n"},
		{"/api/reports/0", "bob", 404, "0", ""},
	} {
		status, remaining, body := ask(t, server.URL+tt.path, tt.key)
		if status != tt.status || remaining != tt.remaining || tt.body != "" && body != tt.body {
			t.Errorf("request %d, %s of %s: got %d, remaining %q, %q, want %d, %q, %q", i, tt.path, tt.key,
				status, remaining, body, tt.status, tt.remaining, tt.body)
		}
	}
}

func ask(t *testing.T, url, key string) (status int, remaining, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("X-RateLimit-Remaining"), string(text)
}
