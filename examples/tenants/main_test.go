package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/headgate/headgate/internal/redistest"
)

// process returns the handler of one process.
func process(t *testing.T, url string) http.Handler {
	t.Helper()
	limiter, closeAll, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeAll)
	return handler(limiter)
}

func get(h http.Handler, tenant string) int {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Tenant", tenant)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestProcessesShareTheLimitOfATenant(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	one, two := process(t, server.URL()), process(t, server.URL())
	var got []int
	for range 3 {
		got = append(got, get(one, "initech"), get(two, "initech"))
	}
	if want := []int{200, 200, 200, 200, 200, 429}; !slices.Equal(got, want) {
		t.Errorf("5/m over two processes: got %v, want %v", got, want)
	}
	if code := get(one, "acme"); code != http.StatusOK {
		t.Errorf("another tenant: got %d, want 200", code)
	}
	server.Kill()
	if code := get(two, "acme"); code != http.StatusOK {
		t.Errorf("after Redis has died: got %d, want 200", code)
	}
}

func TestServesWithoutRedisFromTheBeginning(t *testing.T) {
	if code := get(process(t, "redis://127.0.0.1:1"), "acme"); code != http.StatusOK {
		t.Errorf("got %d, want 200", code)
	}
}
