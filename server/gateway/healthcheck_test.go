package gateway

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestHealthChecksRemoveAndRestoreUpstreams(t *testing.T) {
	t.Parallel()
	var sick [2]atomic.Bool
	var checks atomic.Int32
	var ups [2]*httptest.Server
	var served [2]atomic.Int32
	for i := range ups {
		ups[i] = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				served[i].Add(1)
				return
			}
			checks.Add(1)
			if r.Host != "health.example" || r.URL.RawQuery != "deep" {
				t.Errorf("checked %s for %s, want ?deep for health.example", r.URL, r.Host)
			}
			if sick[i].Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
	}
	var book logBook
	c := before(ups[0].URL, ups[1].URL)
	c.Logger = book.logger()
	// On a busy machine a healthy upstream may respond late.
	c.Routes[0].Health = &Health{Path: "/healthz?deep", Host: "health.example", Interval: time.Second / 2, Timeout: time.Second / 2, Failures: 2, Successes: 2}
	c.Routes[0].Ejection.SlowReturn = -1
	g := start(t, c)
	ask := func() (counts [2]int32) {
		t.Helper()
		before := [2]int32{served[0].Load(), served[1].Load()}
		for range 10 {
			if a := get(t, g, "/"); a.status != 200 {
				t.Fatalf("status %d, want 200", a.status)
			}
		}
		return [2]int32{served[0].Load() - before[0], served[1].Load() - before[1]}
	}
	state := func(i int) UpstreamStats { return g.Stats().Upstreams[i] }
	if got := ask(); got != [2]int32{5, 5} {
		t.Errorf("both well: served %v, want 5 each", got)
	}
	sick[0].Store(true)
	await.True(t, "the first is down", func() bool { return state(0).Down })
	if got := ask(); got != [2]int32{0, 10} {
		t.Errorf("the first down: served %v, want all by the second", got)
	}
	sick[1].Store(true)
	await.True(t, "both are down", func() bool { return state(1).Down })
	a := get(t, g, "/")
	wantProblem(t, a, http.StatusServiceUnavailable)
	if got := a.header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q, want 1", got)
	}
	sick[0].Store(false)
	sick[1].Store(false)
	await.True(t, "both are back", func() bool { return state(0).Up && state(1).Up })
	if got := ask(); got != [2]int32{5, 5} {
		t.Errorf("both back: served %v, want 5 each", got)
	}
	if s := state(0); s.ChecksFailed < 2 || s.Checks <= s.ChecksFailed || s.LastErr == nil {
		t.Errorf("%+v, want checks that failed and others", s)
	}
	// The line is written after the state has changed.
	await.True(t, "the log has the return of both", func() bool { return len(book.each(t, "upstream is up again")) >= 2 })
	if down, back := len(book.each(t, "upstream is down")), len(book.each(t, "upstream is up again")); down != 2 || back != 2 {
		t.Errorf("the log has %d upstreams that went down and %d that returned, want 2 each:\n%s", down, back, &book)
	}
}

func TestHangingHealthCheckFails(t *testing.T) {
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			<-r.Context().Done()
		}
	})
	c := before(up.URL)
	c.Routes[0].Health = &Health{Path: "/healthz", Interval: 50 * time.Millisecond, Timeout: 20 * time.Millisecond, Failures: 1}
	g := start(t, c)
	await.True(t, "it is down", func() bool { return g.Stats().Upstreams[0].Down })
	wantProblem(t, get(t, g, "/"), http.StatusServiceUnavailable)
}
