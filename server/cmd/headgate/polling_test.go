package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/bars"
)

// withoutPush returns the address of something before a rules service that refuses its stream of changes, and nothing
// else.
func withoutPush(t *testing.T, service *process) string {
	t.Helper()
	to, err := url.Parse("http://" + service.admin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	before := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/watch" {
			http.Error(w, "the push is cut", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(before.Close)
	return before.URL
}

// Nodes that are not told ask, as often as they do by default: a service and nodes that are processes of their own.
func TestSoakNodesPollWithin15SecondsWithoutPush(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it takes a minute: set HEADGATE_SOAK")
	}
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	service := serve(t, "--gateway-addr", "off", "--admin-token-file", admin)
	client := rulesService(t, service)
	putRule(t, client, "per-user", fmt.Sprintf(perUserRule, 100))
	token := nodeToken(t, client)
	nodes := make([]*process, 4)
	for i := range nodes {
		nodes[i] = serve(t, "--gateway-addr", "off", "--control", withoutPush(t, service), "--token-file", token, "--data-dir", t.TempDir())
		waitLimit(t, nodes[i], "x", 100)
	}
	const writes = 2
	var limit time.Duration
	for i := range writes {
		began := time.Now()
		putRule(t, client, "per-user", fmt.Sprintf(perUserRule, 200+i))
		for _, n := range nodes {
			waitLimit(t, n, "x", int64(200+i))
		}
		limit = max(limit, time.Since(began))
	}
	for _, n := range nodes {
		if _, status := n.status(); status.Rules.Follow == nil || status.Rules.Follow.Push {
			t.Errorf("the push was not cut: %+v", status.Rules.Follow)
		}
	}
	bars.Hold(t, fmt.Sprintf("with the push cut, %d nodes that are processes, %d writes", len(nodes), writes), "in force in ≤ 15 s by asking",
		fmt.Sprintf("%s at most", limit.Round(10*time.Millisecond)), limit <= 15*time.Second)
}
