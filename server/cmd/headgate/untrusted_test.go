package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/telemetry"
)

func TestUntrustedLoadBalancerIsReported(t *testing.T) {
	t.Parallel()
	rules := newFile(t, "rules.yaml", "rules:\n  - { id: per-address, key: [ip], limits: [100000/h] }\n")
	p := serve(t, onFreePort("--rules", rules)...)
	c := newClient(t, p.gateway, "X-Forwarded-For", "203.0.113.9")
	await.True(t, "/readyz to warn", func() bool {
		if response, err := c.ask("/"); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", response, err)
		}
		_, s := p.status()
		return len(s.Warnings) > 0
	})
	code, s := p.status()
	if code != http.StatusOK || s.State != telemetry.Ready || s.Degraded {
		t.Errorf("got %d, %s, degraded %v; want a warning and nothing else", code, s.State, s.Degraded)
	}
	for _, part := range []string{"X-Forwarded-For", "127.0.0.1", "--trusted-proxies"} {
		if !strings.Contains(s.Warnings[0], part) {
			t.Errorf("got %q, want %s in it", s.Warnings[0], part)
		}
	}
	p.waitLog(s.Warnings[0])
	b := openBrowser(t, "http://"+p.admin)
	b.open("/")
	b.seeText("all clients behind such an address share its limits")
	if got := len(p.logged(s.Warnings[0])); got != 1 {
		t.Errorf("got %d lines in the log, want 1", got)
	}
}
