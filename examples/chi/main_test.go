package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/memstore"
)

func TestReportsAreLimitedForEachKey(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	limit, err := newLimit(store, "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(routes(limit))
	defer server.Close()
	for i, tt := range []struct {
		path, key string
		status    int
		remaining string // of the tightest limit; none where nothing is limited
		body      string // none if it does not matter
	}{
		{"/api/reports/7", "alice", 200, "1", "report 7\n"},
		{"/api/reports/8", "alice", 200, "0", "report 8\n"},
		{"/api/reports/9", "alice", 429, "0", ""},
		{"/api/reports/7", "bob", 200, "1", "report 7\n"},
		{"/healthz", "alice", 200, "", "ok\n"},
		{"/api/reports/0", "bob", 404, "0", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", tt.key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.status || resp.Header.Get("X-RateLimit-Remaining") != tt.remaining || tt.body != "" && string(body) != tt.body {
			t.Errorf("request %d, %s of %s: got %d, remaining %q, %q, want %d, %q, %q", i, tt.path, tt.key,
				resp.StatusCode, resp.Header.Get("X-RateLimit-Remaining"), body, tt.status, tt.remaining, tt.body)
		}
	}
}
