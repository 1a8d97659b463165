package node

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/overload"
)

func TestOverloadedNodeShedsItsOwnWorkInOrder(t *testing.T) {
	order := []struct {
		wait   time.Duration
		served []string
		shed   []string
	}{
		{0, []string{"/", "/docs/", "/assets/x.js", "/v1/explain", "/v1/traffic", "/v1/traffic/live"}, nil},
		{60 * time.Millisecond, []string{"/v1/explain", "/v1/whatif", "/v1/traffic/clients"}, []string{"/", "/docs/index.html"}},
		{120 * time.Millisecond, []string{"/v1/traffic", "/v1/traffic/clients"}, []string{"/", "/v1/explain", "/v1/whatif"}},
		{250 * time.Millisecond, nil, []string{"/", "/v1/explain", "/v1/traffic", "/v1/traffic/clients"}},
	}
	always := []string{
		"/metrics", "/healthz", "/readyz", "/v1/rules", "/v1/watch", "/v1/keys", "/v1/traffic:report", "/v1/tokens",
		"/v1/traffic/clients:erase",
	}
	synctest.Test(t, func(t *testing.T) {
		var wait atomic.Int64
		m := overload.New(overload.Options{Wait: func() time.Duration { return time.Duration(wait.Load()) }})
		var ended sync.WaitGroup
		ctx := t.Context()
		ended.Go(func() { m.Run(ctx) })
		handler := shedding(m, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, step := range order {
			synctest.Wait()
			wait.Store(int64(step.wait))
			time.Sleep(time.Second)
			synctest.Wait()
			for _, path := range append(step.served, always...) {
				if w := get(handler, path); w.Code != http.StatusOK {
					t.Errorf("wait %v: %s: got %d, want %d", step.wait, path, w.Code, http.StatusOK)
				}
			}
			for _, path := range step.shed {
				if w := get(handler, path); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
					t.Errorf("wait %v: %s: got %d, Retry-After %q, want %d", step.wait, path, w.Code,
						w.Header().Get("Retry-After"), http.StatusServiceUnavailable)
				}
			}
		}
	})
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}
