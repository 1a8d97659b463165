package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/telemetry"
)

const perKey = "rules:\n  - { id: per-key, key: [api_key], limits: [10/h] }\n  - { id: strict, when: { header.x-strict: '*' }, key: [api_key], limits: [10/h], on_failure: closed }\n"

// countingIn are the arguments for a process that counts in a Redis. It is patient, since a busy machine must not make
// it decide without Redis. More is of its configuration.
func countingIn(t *testing.T, server *redistest.Server, more ...string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	writeFile(t, path, strings.Join(append(more, "redis: { deadline: 5s }\n"), "\n"))
	return []string{"--store", server.URL(), "--config", path}
}

// onRedis are the arguments for a gateway that counts there.
func onRedis(t *testing.T, server *redistest.Server, args ...string) []string {
	t.Helper()
	return onFreePort(slices.Concat(args, []string{"--rules", rulesFile(t, perKey)}, countingIn(t, server))...)
}

func TestTwoGatewaysShareLimitsThroughRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	a := serve(t, onRedis(t, server)...)
	b := serve(t, onRedis(t, server)...)
	newClient(t, a.gateway, "X-API-Key", "alice").want(6, 200)
	newClient(t, b.gateway, "X-API-Key", "alice").want(4, 200)
	for _, p := range []*process{a, b} {
		newClient(t, p.gateway, "X-API-Key", "alice").want(1, 429)
		newClient(t, p.gateway, "X-API-Key", "bob-"+p.gateway).want(3, 200)
	}
	code, s := a.status()
	if code != 200 || s.Degraded || s.Store.Kind != "redis" || len(s.Store.Shards) != 1 || !s.Store.Shards[0].Up {
		t.Errorf("got %d %+v", code, s.Store)
	}
	if a.metric(`headgate_decisions_total{mode="exact",rule="per-key",verdict="allow"}`) != 9 {
		t.Error("decisions are not counted as exact")
	}
	await.NoError(t, "the server to be asked how it is", func() error {
		if got := a.metric(`headgate_redis_up{role="primary",server="` + server.Addr() + `"}`); got != 1 {
			return fmt.Errorf("got %v, want 1", got)
		}
		return nil
	})
	calls := 0.0
	for _, op := range []string{"take", "take_all"} {
		calls += a.metric(`headgate_store_seconds_count{op="` + op + `",store="redis"}`)
	}
	if calls < 9 {
		t.Errorf("got %v calls of Redis measured, want at least 9", calls)
	}
	if code := a.stop(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	newClient(t, b.gateway, "X-API-Key", "alice").want(1, 429)
}

// The first requests find connections open and scripts loaded. A request that had to wait for either would wait for
// two round trips and more, and so longer than the deadline: its rule would admit it.
func TestFirstRequestsAreDecidedByRedis(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
	proxy.SetDelay(150 * time.Millisecond) // a round trip takes 300 ms
	p := serve(t, onFreePort("--rules", rulesFile(t, "rules: [{ id: per-key, key: api_key, limits: 2/h }]\n"),
		"--store", "redis://"+proxy.Addr(), "--config", newFile(t, "headgate.yaml", "redis: { deadline: 590ms }\n"))...)
	alice := newClient(t, p.gateway, "X-API-Key", "alice")
	alice.want(2, http.StatusOK)
	alice.want(2, http.StatusTooManyRequests)
}

// Redis is away at the start: the gateway starts all the same, decides by policy and says so, and is exact when Redis
// comes.
func TestGatewayStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	server.Kill()
	p := serve(t, onRedis(t, server)...)
	alice := newClient(t, p.gateway, "X-API-Key", "alice")
	alice.want(30, 200) // open
	newClient(t, p.gateway, "X-API-Key", "carol", "X-Strict", "1").want(1, 503)
	code, s := p.status()
	if code != 200 || s.State != telemetry.Ready || !s.Degraded || s.Store.Shards[0].Up || s.Store.Shards[0].Error == "" {
		t.Errorf("got %d %+v", code, s)
	}
	if got := p.metric(`headgate_degraded_total{policy="open",rule="per-key"}`); got < 30 {
		t.Errorf("got %v degraded decisions, want at least 30", got)
	}
	if got := p.metric(`headgate_decisions_total{mode="degraded",rule="per-key",verdict="allow"}`); got < 30 {
		t.Errorf("got %v decisions counted as degraded, want at least 30", got)
	}
	if got := p.metric(`headgate_decisions_total{mode="exact",rule="per-key",verdict="allow"}`); got != 0 {
		t.Errorf("got %v decisions counted as exact, want none without Redis", got)
	}
	if got := p.metric(`headgate_degraded_total{policy="closed",rule="strict"}`); got < 1 {
		t.Errorf("got %v denied by policy, want 1", got)
	}
	open := 0.0
	for _, shard := range s.Store.Shards {
		open += p.metric(fmt.Sprintf(`headgate_breaker_state{shard=%q}`, shard.Name))
	}
	if open != 1 {
		t.Errorf("got %v open circuits, want 1", open)
	}

	server.Restart()
	await.NoError(t, "Redis to be used", func() error {
		if _, s := p.status(); s.Degraded {
			return fmt.Errorf("got %+v", s.Store)
		}
		return nil
	})
	bob := newClient(t, p.gateway, "X-API-Key", "bob")
	bob.want(10, 200)
	bob.want(1, 429)
	p.waitLog("store is back, decisions are exact again")

	// And away again while it runs.
	server.Kill()
	newClient(t, p.gateway, "X-API-Key", "dave").want(30, 200)
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
}

func TestPasswordsAreNotLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Password: "hush-hush"})
	p := serve(t, onRedis(t, server, "--log-level", "debug")...)
	newClient(t, p.gateway, "X-API-Key", "alice").want(1, 200)
	server.Kill()
	newClient(t, p.gateway, "X-API-Key", "alice").want(10, 200)
	_, ready := get(t, "http://"+p.admin+"/readyz")
	_, metrics := get(t, "http://"+p.admin+"/metrics")
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ready + metrics
	for _, line := range p.log {
		text += fmt.Sprint(line["raw"], "\n")
	}
	if strings.Contains(text, "hush-hush") {
		t.Error("the password of Redis is told")
	}
}

// With limits in Redis a batch is decided side by side and exactly, and a lease of one node is released on another.
func TestDecisionServiceCountsInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	rules := rulesFile(t, "rules:\n  - { id: per-user, key: [user], limits: [50/h] }\n  - { id: jobs, when: { path: /jobs }, key: [ip], limits: [1 concurrent ttl 10m] }\n")
	args := append([]string{"--gateway-addr", "off", "--rules", rules}, countingIn(t, server)...)
	a, b := serve(t, args...), serve(t, args...)
	batch := "[" + strings.Repeat(`{"ruleId":"per-user","client":{"userId":"alice"}},`, 99) + `{"ruleId":"per-user","client":{"userId":"alice"}}]`
	passed := 0
	for _, p := range []*process{a, b} {
		status, body := curl(t, "-d", batch, "http://"+p.api+"/v1/ratelimit:batch")
		if status != "200" || strings.Contains(body, `"degraded":true`) {
			t.Fatalf("got %s %s", status, body)
		}
		passed += strings.Count(body, `"passed":true`)
	}
	if passed != 50 {
		t.Errorf("got %d that passed on both nodes, want 50", passed)
	}

	const job = `{"client":{"clientIP":"192.0.2.1"},"attributes":{"path":"/jobs"}}`
	_, body := curl(t, "-d", job, "http://"+a.api+"/v1/ratelimit")
	var d struct{ LeaseID string }
	if err := json.Unmarshal([]byte(body), &d); err != nil || d.LeaseID == "" {
		t.Fatalf("got %s, want a lease", body)
	}
	if status, body := curl(t, "-d", job, "http://"+b.api+"/v1/ratelimit"); status != "429" {
		t.Errorf("got %s %s while the place is held, want 429", status, body)
	}
	if status, body := curl(t, "-d", `{"leaseId":"`+d.LeaseID+`"}`, "http://"+b.api+"/v1/ratelimit:release"); status != "204" {
		t.Errorf("got %s %s, want 204", status, body)
	}
	if status, body := curl(t, "-d", job, "http://"+b.api+"/v1/ratelimit"); status != "200" {
		t.Errorf("got %s %s when it was given back, want 200", status, body)
	}
}
