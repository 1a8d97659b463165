package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/control/remote"
)

// takeAs has the decision service of a process count so many requests of a user under the rule per-user.
func takeAs(t *testing.T, p *process, user string, times int) {
	t.Helper()
	for range times {
		body := fmt.Sprintf(`{"ruleId":"per-user","client":{"userId":%q}}`, user)
		response, err := http.Post("http://"+p.api+"/v1/ratelimit", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("got %s, want 200", response.Status)
		}
	}
}

// fleetShell is a shell with a rules service and nodes of it, each a process.
func fleetShell(t *testing.T, nodes []string, args ...string) (s *shell, client *remote.Client, started []*process) {
	t.Helper()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	service := serve(t, append([]string{"--gateway-addr", "off", "--admin-token-file", admin, "--data-dir", t.TempDir(), "--node-id", "service"}, args...)...)
	client = rulesService(t, service)
	putRule(t, client, "per-user", fmt.Sprintf(perUserRule, 10))
	token := nodeToken(t, client)
	for _, id := range nodes {
		started = append(started, serve(t, append([]string{
			"--gateway-addr", "off", "--control", "http://" + service.admin, "--token-file", token, "--data-dir", t.TempDir(), "--node-id", id,
		}, args...)...))
	}
	s = &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + t.TempDir() + "/contexts.yaml", "HEADGATE_SERVER=http://" + service.admin, "HEADGATE_TOKEN_FILE=" + admin}}
	for i, id := range nodes {
		waitLimit(t, started[i], "x", 10)
		await.NoError(t, "the service to know of node "+id, func() error { return s.holds(id, "nodes") })
	}
	return s, client, started
}

// fields returns a table without the spaces that fill it.
func fields(table string) string {
	var lines []string
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestKeysAreReadAndResetOnAllNodes(t *testing.T) {
	t.Parallel()
	s, _, nodes := fleetShell(t, []string{"n1", "n2"})
	takeAs(t, nodes[0], "acme", 3)
	takeAs(t, nodes[1], "acme", 1)
	table := fields(s.want("RULE", "keys", "get", "user=acme"))
	for _, want := range []string{"per-user 10/h 7 of 10 in 1", "per-user 10/h 9 of 10 in ", "per-user 10/h 10 of 10 now service -"} {
		if !strings.Contains(table, want) {
			t.Errorf("got\n%s\nwant %q in it", table, want)
		}
	}
	s.want("reset user=acme under per-user", "keys", "reset", "user=acme")
	s.want(`"state": "answered"`, "keys", "get", "user=acme", "--output", "json")
	for _, node := range nodes {
		if got, err := limitOf(t, node, "acme"); err != nil || got != 10 {
			t.Errorf("after it was forgotten: got %d, %v", got, err)
		}
	}
	if table := fields(s.want("RULE", "keys", "get", "user=acme")); strings.Count(table, "10 of 10 now") != 3 {
		t.Errorf("after it was forgotten: got\n%s\nwant all of it back on three nodes", table)
	}

	// One that is killed is told of, and the others answer.
	nodes[1].signal(syscall.SIGKILL)
	nodes[1].wait()
	out, errs, code := s.run("", "keys", "get", "user=acme")
	if code != cli.ExitFailure || !strings.Contains(errs, "node n2: it refused the connection") || !strings.Contains(fields(out), "10 of 10 now n1 -") {
		t.Errorf("with a node that was killed: exit %d, %s%s; want 1, what n1 has, and that n2 did not answer", code, out, errs)
	}
	s.refuses(cli.ExitFailure, "node n2: it refused the connection", "keys", "reset", "user=acme")
}

// What is left in a store that cannot be asked is unknown: nothing is made up, and the reason is told.
func TestKeysAreUnknownWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	s, client, nodes := fleetShell(t, []string{"n1"}, countingIn(t, redis)...)
	takeAs(t, nodes[0], "acme", 2)
	s.want("8 of 10", "keys", "get", "user=acme")
	redis.Kill()
	out, errs, code := s.run("", "keys", "get", "user=acme")
	if table := fields(out); code != cli.ExitFailure || !strings.Contains(table, "per-user 10/h unknown unknown n1 -") || strings.Contains(table, "10 of 10") {
		t.Errorf("got exit %d,\n%s\nwant 1, and that what is left is unknown", code, out)
	}
	if !strings.Contains(errs, "node n1: ") || !strings.Contains(errs, redis.Addr()) {
		t.Errorf("got %q, want the reason, with the address of the server", errs)
	}
	var response struct {
		Keys []struct {
			Mode   string `json:"mode"`
			Limits []struct {
				Remaining *int64 `json:"remaining"`
			} `json:"limits"`
		} `json:"keys"`
		Error string `json:"error"`
	}
	if err := client.Do(t.Context(), http.MethodGet, "/v1/keys", url.Values{"user": {"acme"}}, nil, &response); err != nil {
		t.Fatal(err)
	}
	if response.Error == "" || len(response.Keys) == 0 {
		t.Errorf("got %+v, want an error", response)
	}
	for _, k := range response.Keys {
		if k.Mode != "degraded" || k.Limits[0].Remaining != nil {
			t.Errorf("got %+v, want mode degraded and nothing that remains", k)
		}
	}
}

func TestNodesThatShareRedisAreQueriedOnce(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	s, client, nodes := fleetShell(t, []string{"n1", "n2"}, countingIn(t, redis)...)
	for _, p := range nodes {
		takeAs(t, p, "acme", 2)
	}
	table := fields(s.want("RULE", "keys", "get", "user=acme"))
	if strings.Count(table, "\n") != 1 || !strings.Contains(table, "6 of 10") || !strings.Contains(table, "shared: redis ") {
		t.Errorf("got\n%s\nwant one line with 6 of 10 that all share", table)
	}
	s.want("reset user=acme under per-user", "keys", "reset", "user=acme")
	s.want("10 of 10", "keys", "get", "user=acme")
	override := map[string]any{"client": map[string]string{"user": "acme"}, "limits": []string{"50/h"}, "for": "1h"}
	if err := client.Do(t.Context(), http.MethodPost, "/v1/keys:override", nil, override, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range nodes {
		waitLimit(t, p, "acme", 50)
	}
	await.NoError(t, "the service itself to have it", func() error { return s.holds("50 of 50", "keys", "get", "user=acme") })
}
