package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/internal/pgtest"
)

// heartbeat says that a node is there.
func (s *shell) heartbeat(id string) {
	s.t.Helper()
	p := cli.Program{Environ: s.env}
	client, err := p.Connect(&cli.ServerFlags{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Heartbeat(context.Background(), control.Node{ID: id, Store: "ok"}); err != nil {
		s.t.Fatal(err)
	}
}

// lacks fails unless what a command writes has none of these words.
func (s *shell) lacks(words string, args ...string) error {
	s.t.Helper()
	if out := s.want("", args...); strings.Contains(out, words) {
		return fmt.Errorf("got\n%s", out)
	}
	return nil
}

// A node that is stopped is shown no longer, whichever database the service has: be it one of --control, or an instance
// of the service itself. One that is killed stays, until it is removed.
func TestStoppedNodesAreRemovedFromTheList(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return t.TempDir() + "/rules.db" },
		"postgres": func(t *testing.T) string { return pgtest.Start(t, pgtest.Options{}).NewSchema(t) },
		"redis":    func(t *testing.T) string { return "redis://" + redistest.Standalone(t, redistest.Options{}).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := newFile(t, "admin-token", testAdminToken+"\n")
			instance := []string{"--gateway-addr", "off", "--admin-token-file", admin, "--db", database(t)}
			service := serve(t, append([]string{"--node-id", "service"}, instance...)...)
			token := nodeToken(t, rulesService(t, service))
			node := func(id string) *process {
				return serve(t, "--gateway-addr", "off", "--control", "http://"+service.admin, "--token-file", token, "--data-dir", t.TempDir(), "--node-id", id)
			}
			stopped, killed, other := node("stopped"), node("killed"), serve(t, append([]string{"--node-id", "other"}, instance...)...)
			s := &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + t.TempDir() + "/contexts.yaml", "HEADGATE_SERVER=http://" + service.admin, "HEADGATE_TOKEN_FILE=" + admin}}
			for _, id := range []string{"stopped", "killed", "other"} {
				await.NoError(t, "the service to know of "+id, func() error { return s.holds(id, "nodes") })
			}
			for id, p := range map[string]*process{"stopped": stopped, "other": other} {
				if code := p.stop(); code != 0 {
					t.Errorf("%s ended with %d", id, code)
				}
				if err := s.lacks(id, "nodes"); err != nil {
					t.Errorf("after %s was stopped: %v", id, err)
				}
			}
			killed.signal(syscall.SIGKILL)
			killed.wait()
			s.want("killed", "nodes")
			s.want("deleted node killed", "nodes", "delete", "killed")
			if err := s.lacks("killed", "nodes"); err != nil {
				t.Error(err)
			}
			s.refuses(cli.ExitFailure, "There is no node", "nodes", "delete", "killed")
			s.want("removed node killed", "audit", "--kind", "event")
			s.refuses(cli.ExitFailure, `unknown command "delte" for "headgate nodes", did you mean delete?`, "nodes", "delte", "killed")
		})
	}
}
