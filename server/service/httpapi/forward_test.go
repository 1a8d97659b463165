package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/service/httpapi"
)

// Clients of a proxy that sends its token as Bearer can send X-Headgate-Token themselves.
func TestClientCannotUseUpItsProxysLogins(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-user, key: user, limits: 100/h }]", httpapi.Config{Token: token(t), Logins: newLogins(t, 10)})
	for range 30 {
		a.wants(t, 200, "", "GET", "/v1/forward-auth", "", "X-Headgate-Token", "of-the-client", "Authorization", "Bearer "+secret)
		a.wants(t, 200, "", "GET", "/v1/forward-auth", "", "X-Headgate-Token", secret, "Authorization", "Bearer of-the-client")
	}
}

// The Bearer token of a proxy must not identify its clients.
func TestProxyTokenIsNotTheClientsToken(t *testing.T) {
	a := newAPI(t, "rules: [{ id: per-bearer, key: bearer, fallback: skip, limits: 1/h }]", httpapi.Config{Token: token(t)})
	for range 3 {
		a.wants(t, 200, "", "GET", "/v1/forward-auth", "", "Authorization", "Bearer "+secret)
	}
	client := []string{"X-Headgate-Token", secret, "Authorization", "Bearer the-clients-own"}
	a.wants(t, 200, "", "GET", "/v1/forward-auth", "", client...)
	a.wants(t, 429, "per-bearer", "GET", "/v1/forward-auth", "", client...)
}

func TestOnlyTrustedProxiesAreTrusted(t *testing.T) {
	var log strings.Builder
	a := newAPI(t, "rules: [{ id: per-ip, key: ip, limits: 2/h }, { id: admin, when: { path: /admin }, block: true }]",
		httpapi.Config{Identifier: identify(t, "192.0.2.0/24"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i, want := range []int{200, 200, 429} { // the caller is 10.1.2.3, regardless of its headers
		r := a.call("GET", "/v1/forward-auth", "", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i), "X-Forwarded-Uri", "/admin")
		if r.StatusCode != want {
			t.Errorf("call %d: got %d, want %d", i+1, r.StatusCode, want)
		}
	}
	if got := strings.Count(log.String(), "untrusted proxy"); got != 1 || !strings.Contains(log.String(), "peer=10.1.2.3:5000") {
		t.Errorf("got %d warnings, want one that names the caller:\n%s", got, &log)
	}
}

func TestForwardAuthIgnoresConcurrencyAndLogsIt(t *testing.T) {
	var log strings.Builder
	a := newAPI(t, "rules: [{ id: jobs, key: ip, limits: [1 concurrent ttl 30s, 5/h] }]",
		httpapi.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i, want := range []int{200, 200, 200, 200, 200, 429} {
		if r := a.call("GET", "/v1/forward-auth", "", "X-Forwarded-Uri", "/"); r.StatusCode != want {
			t.Errorf("call %d: got %d, want %d", i+1, r.StatusCode, want)
		}
	}
	if got := strings.Count(log.String(), "ignores concurrency limits"); got != 1 || !strings.Contains(log.String(), "jobs") {
		t.Errorf("got %d warnings, want one that names the rule:\n%s", got, &log)
	}
}

// A delayed response of forward-auth may take longer than the server's timeouts.
func TestForwardAuthWaitsForDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTimedAPI(t, "rules: [{ id: line, key: ip, limits: 1/m, on_limit: delay 2m }]", httpapi.Config{})
		start := time.Now()
		for i, want := range []time.Duration{0, time.Minute, 2 * time.Minute} {
			if r := a.call("GET", "/v1/forward-auth", "", "X-Forwarded-Uri", "/"); r.StatusCode != 200 {
				t.Errorf("call %d: got %d, want 200", i+1, r.StatusCode)
			}
			if got := time.Since(start); got < want || got > want+time.Second {
				t.Errorf("call %d: got its answer after %s, want %s", i+1, got, want)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/forward-auth", nil)
		r.Header.Set("X-Forwarded-Uri", "/")
		r.RemoteAddr = "10.1.2.3:5000"
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("who hangs up: got %d, want 503", w.Code)
		}
		if n := a.engine.Waiting(); n != 0 {
			t.Errorf("got %d who wait, want none", n)
		}
	})
}
