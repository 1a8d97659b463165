package main

import (
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

// A rules service and a node of it, each a process of its own: a client's plan is changed by the command line, and the
// limit on the node follows.
func TestLimitDependsOnThePlanOfAClient(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	addr := freeAddr(t)
	service := serve(t, "--gateway-addr", "off", "--admin-token-file", admin, "--admin-addr", addr, "--data-dir", t.TempDir())
	client := rulesService(t, service)
	putRule(t, client, "per-user", `{"id":"per-user","key":["user"],"limits":["100/h"],"overrides":[
		{"when":{"client.plan":"gold"},"limits":["900/h"]},{"when":{"client.plan":"silver"},"limits":["300/h"]}]}`)
	node := serve(t, "--gateway-addr", "off", "--control", "http://"+addr, "--token-file", nodeToken(t, client), "--data-dir", t.TempDir())
	waitLimit(t, node, "acme", 100)
	s := &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + filepath.Join(t.TempDir(), "contexts.yaml")}}
	set := func(attributes ...string) {
		t.Helper()
		args := []string{"clients", "set", "acme", "--server", "http://" + addr, "--token-file", admin}
		for _, a := range attributes {
			args = append(args, "--attribute", a)
		}
		s.want("client acme is at revision", args...)
	}
	set("plan=gold")
	waitLimit(t, node, "acme", 900)
	set("plan=silver", "user=acme", "user=acme-ci")
	waitLimit(t, node, "acme", 300)
	waitLimit(t, node, "acme-ci", 300)
	set("plan=none")
	waitLimit(t, node, "acme", 100)
}

func TestSetClientProperties(t *testing.T) {
	s := newShell(t)
	s.want("created 1", "rules", "apply", "-f", rulesFile(t, searchRule))
	s.want("client acme is at revision", "clients", "set", "acme", "--attribute", "plan=gold", "--attribute", "tier=2", "--limit", "7/s")
	s.want("plan: gold", "clients", "get", "acme")
	s.want("plan: gold", "clients", "list", "--search", "gold")
	await.NoError(t, "the client's own limit", func() error { return s.holds("7 of 7", "keys", "get", "user=acme") })
	s.refuses(cli.ExitFailure, "user, or another name for a property", "clients", "set", "acme", "--attribute", "usr=acme")
	s.refuses(cli.ExitFailure, "one value", "clients", "set", "acme", "--attribute", "plan=gold", "--attribute", "plan=silver")
}
