package deploy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

// haproxy starts HAProxy in front of a service, and returns its URL.
func haproxy(t *testing.T, decider, service string, lua ...string) string {
	t.Helper()
	dir, addr := t.TempDir(), freePort(t)
	place(t, dir, "haproxy/headgate.lua", append(lua, "127.0.0.1:8081", decider)...)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	path := place(t, dir, "haproxy/haproxy.cfg", "127.0.0.1:9000", service, "bind :80", "bind 127.0.0.1:"+port)
	run(t, dir, addr, "haproxy", "-db", "-f", path)
	return "http://" + addr
}

func TestHAProxyWithLua(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy{url: haproxy(t, s.decider, s.service), tells: true, opens: true}.test(t, s)
}

// HAProxy's HTTP client crashes when it is given more lines than HAProxy accepts itself.
func TestHAProxySurvivesManyHeaderLines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url := haproxy(t, s.decider, s.service)
	for range 2 {
		if got := ask(t, "127.0.0.2", http.MethodGet, url+"/limited/a", ""); got.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s, want 200", got.StatusCode, got.body)
		}
	}
	// Go adds Host, User-Agent and Accept-Encoding.
	for lines, want := range map[int]int{80: 429, 88: 429, 90: 400, 95: 400, 96: 400, 97: 400, 98: 400} {
		var header []string
		for i := range lines {
			header = append(header, fmt.Sprintf("X-%d", i), "x")
		}
		if got := ask(t, "127.0.0.2", http.MethodGet, url+"/limited/a", "", header...); got.StatusCode != want {
			t.Errorf("with %d lines: got %d %s, want %d", lines, got.StatusCode, got.body, want)
		}
		if got := ask(t, "127.0.0.2", http.MethodGet, url+"/limited/a", ""); got.StatusCode != http.StatusTooManyRequests {
			t.Errorf("after %d lines: got %d %s, want 429", lines, got.StatusCode, got.body)
		}
	}
}

// While Headgate hangs requests do not wait for it one after the other, and limits are back when it responds.
func TestHAProxyPassesRequestsWhileHeadgateHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var asked, checked atomic.Int64
	hangs := make(chan struct{})
	headgate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/forward-auth" {
			asked.Add(1)
		} else {
			checked.Add(1)
		}
		select {
		case <-hangs:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(headgate.Close)
	url := haproxy(t, strings.TrimPrefix(headgate.URL, "http://"), s.service, "local timeout = 10 ", "local timeout = 1 ")
	get := func() int { return ask(t, "127.0.0.2", http.MethodGet, url+"/", "").StatusCode }
	await.True(t, "a request passes without asking Headgate", func() bool {
		before := asked.Load()
		if got := get(); got != http.StatusOK {
			t.Fatalf("while Headgate hangs: got %d, want 200", got)
		}
		return asked.Load() == before
	})
	known, checks := asked.Load(), checked.Load()
	await.True(t, "HAProxy looks for Headgate twice more", func() bool {
		if got := get(); got != http.StatusOK || asked.Load() != known {
			t.Fatalf("while Headgate hangs: got %d and %d asked, want 200 and none", got, asked.Load()-known)
		}
		return checked.Load() >= checks+8 // HAProxy tries four times
	})
	close(hangs)
	await.Equal(t, "Headgate responds", get, http.StatusTooManyRequests)
}
