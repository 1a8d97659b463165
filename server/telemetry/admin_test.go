package telemetry_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/telemetry"
)

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
	return w
}

func TestReadyzSaysWhetherToSendRequests(t *testing.T) {
	status := telemetry.Status{}
	h := telemetry.Admin{Metrics: telemetry.New("test"), Status: func() telemetry.Status { return status }}.Handler()
	for _, tt := range []struct {
		status telemetry.Status
		want   int
	}{
		{telemetry.Status{State: telemetry.Starting}, 503},
		{telemetry.Status{State: telemetry.Ready}, 200},
		{telemetry.Status{State: telemetry.Ready, Degraded: true, Rules: telemetry.RulesStatus{Error: "rules.yaml:1:1: bad"}}, 200},
		{telemetry.Status{State: telemetry.Draining}, 503},
	} {
		status = tt.status
		w := ask(h, http.MethodGet, "/readyz")
		if w.Code != tt.want {
			t.Errorf("%s: got %d, want %d", tt.status.State, w.Code, tt.want)
		}
		var got telemetry.Status
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.State != tt.status.State || got.Degraded != tt.status.Degraded || got.Rules.Error != tt.status.Rules.Error {
			t.Errorf("got %+v, want %+v", got, tt.status)
		}
		if alive := ask(h, http.MethodGet, "/healthz"); alive.Code != http.StatusOK {
			t.Errorf("%s: healthz: got %d, want 200 whatever the state", tt.status.State, alive.Code)
		}
	}
}

func TestAdminAnswersNothingElse(t *testing.T) {
	h := telemetry.Admin{Metrics: telemetry.New("test"), Status: func() telemetry.Status { return telemetry.Status{} }}.Handler()
	for _, tt := range []struct {
		method, path string
		want         int
		has          string
	}{
		{http.MethodGet, "/", 200, "/metrics"},
		{http.MethodHead, "/healthz", 200, ""},
		{http.MethodGet, "/metrics", 200, "headgate_build_info"},
		{http.MethodGet, "/debug/pprof/", 404, ""},
		{http.MethodGet, "/nothing", 404, ""},
		{http.MethodPost, "/readyz", 405, ""},
		{http.MethodDelete, "/metrics", 405, ""},
	} {
		w := ask(h, tt.method, tt.path)
		if w.Code != tt.want || !strings.Contains(w.Body.String(), tt.has) {
			t.Errorf("%s %s: got %d %.200s, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.want, tt.has)
		}
	}
}

// A browser that reads an answer takes it for nothing else, and keeps none.
func TestResponsesAreNotCachedOrSniffed(t *testing.T) {
	h := telemetry.Admin{Metrics: telemetry.New("test"), Status: func() telemetry.Status { return telemetry.Status{} }}.Handler()
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/", "/nothing"} {
		w := ask(h, http.MethodGet, path)
		if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options: got %q", path, got)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control: got %q", path, got)
		}
	}
}
