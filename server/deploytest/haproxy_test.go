package deploytest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// patient are changes to haproxy.cfg by which a Headgate on a busy machine is not taken for one that hangs.
var patient = []string{"timeout check 350ms", "timeout check 30s"}

// haproxy starts HAProxy in front of a service, and returns its URL.
func haproxy(t *testing.T, decider, service string, changes ...string) string {
	t.Helper()
	dir, addr := t.TempDir(), freePort(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	socket := "abns@headgate-" + port // one of its own for each HAProxy on a host
	place(t, dir, "haproxy/headgate.lua", "abns@headgate", socket)
	path := place(t, dir, "haproxy/haproxy.cfg", append(changes,
		"127.0.0.1:9000", service, "127.0.0.1:8081", decider, "bind :80", "bind 127.0.0.1:"+port, "bind abns@headgate", "bind "+socket)...)
	run(t, dir, addr, "haproxy", "-db", "-f", path)
	return "http://" + addr
}

func TestHAProxyWithLua(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy{url: haproxy(t, s.decider, s.service, patient...), tells: true, opens: true}.test(t, s)
}

// HAProxy's HTTP client crashes when it is given more lines than HAProxy accepts itself.
func TestHAProxySurvivesManyHeaderLines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url := haproxy(t, s.decider, s.service, patient...)
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

// While Headgate hangs no request waits for it for long, the first one included, and limits are back when it responds.
func TestHAProxyPassesRequestsWhileHeadgateHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var hangs atomic.Pointer[chan struct{}]
	closed := make(chan struct{})
	close(closed)
	hangs.Store(&closed)
	var asked atomic.Int64
	headgate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/forward-auth" {
			asked.Add(1)
		}
		select {
		case <-*hangs.Load():
		case <-r.Context().Done():
			return
		}
		if r.URL.Path == "/v1/forward-auth" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(headgate.Close)
	url := haproxy(t, strings.TrimPrefix(headgate.URL, "http://"), s.service)
	get := func() int { return ask(t, "127.0.0.2", http.MethodGet, url+"/", "").StatusCode }
	await.Equal(t, "Headgate responds", get, http.StatusTooManyRequests)

	hang := make(chan struct{})
	hangs.Store(&hang)
	before, began := asked.Load(), time.Now()
	if got := get(); got != http.StatusOK {
		t.Fatalf("the first request while Headgate hangs: got %d, want 200", got)
	}
	// HAProxy finds out within a second; the timeout of the call is 10 s.
	if waited := time.Since(began); waited > 5*time.Second {
		t.Errorf("the first request while Headgate hangs waited for %v, want up to 1 s", waited)
	}
	if got := asked.Load() - before; got > 1 {
		t.Errorf("the first request asked Headgate %d times, want once: each would be counted", got)
	}
	before = asked.Load()
	for range 20 {
		if got := get(); got != http.StatusOK || asked.Load() != before {
			t.Fatalf("while Headgate hangs: got %d and %d asked, want 200 and none", got, asked.Load()-before)
		}
	}
	close(hang)
	await.Equal(t, "Headgate responds again", get, http.StatusTooManyRequests)
}
