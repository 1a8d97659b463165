package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

// A shell runs commands against a rules service.
type shell struct {
	t   *testing.T
	env []string
}

// newShell starts a rules service and returns a shell with a context for it.
func newShell(t *testing.T) *shell {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	writeFile(t, token, "a-token-for-tests-of-32-characters\n")
	p := serve(t, onFreePort("--data-dir", filepath.Join(dir, "data"), "--admin-token-file", token)...)
	s := &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + filepath.Join(dir, "config", "contexts.yaml")}}
	s.want("", "context", "set", "here", "--server", "http://"+p.admin, "--token-file", token)
	return s
}

// run runs a command and returns what it wrote and its exit code.
func (s *shell) run(stdin string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	p := newProgram(cli.Program{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Environ: s.env})
	code = p.run(context.Background(), args)
	return out.String(), errs.String(), code
}

// want runs a command that has to succeed, with these words in what it writes.
func (s *shell) want(words string, args ...string) string {
	s.t.Helper()
	out, errs, code := s.run("", args...)
	if code != cli.ExitOK || !strings.Contains(out, words) {
		s.t.Fatalf("headgate %s: exit %d, want 0 and %q in:\n%s%s", strings.Join(args, " "), code, words, out, errs)
	}
	return out
}

// refuses runs a command that has to fail, with these words in what it says.
func (s *shell) refuses(code int, words string, args ...string) {
	s.t.Helper()
	out, errs, got := s.run("", args...)
	if got != code || !strings.Contains(out+errs, words) {
		s.t.Fatalf("headgate %s: exit %d, want %d and %q in:\n%s%s", strings.Join(args, " "), got, code, words, out, errs)
	}
}

const searchRule = `
rules:
  - id: search-per-user
    when: { path: /search/** }
    key: [user]
    limits: [10/s burst 20, 1000/h sliding-window]
`

func TestRulesCommands(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	for _, sub := range []string{"more", ".git"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "search.yaml"), searchRule)
	writeFile(t, filepath.Join(dir, "more", "login.yml"), "rules: [{id: login, key: [ip], limits: [5/m]}]\n")
	writeFile(t, filepath.Join(dir, ".git", "junk.yaml"), "not a rule")

	s.want("demo-per-address", "rules", "list")
	s.refuses(cli.ExitDiffers, "would create 2, update 0, delete 5", "rules", "diff", "-f", dir, "--prune")
	s.want("demo-per-address", "rules", "list")
	s.want("would create 2", "rules", "apply", "-f", dir, "--dry-run")
	s.want("created 2, updated 0, deleted 0", "rules", "apply", "-f", dir)
	s.want("created 0, updated 0, deleted 5, unchanged 2", "rules", "apply", "-f", dir, "--prune")
	s.want("created 0, updated 0, deleted 0, unchanged 2", "rules", "apply", "-f", dir, "--prune")
	s.want("leave 2 unchanged", "rules", "diff", "-f", dir, "--prune")
	s.want("limits: [10/s burst 20, 1000/h sliding-window]", "rules", "get", "search-per-user")

	var list []struct {
		Rule     struct{ ID string }
		Revision int64
	}
	if err := json.Unmarshal([]byte(s.want("", "rules", "list", "--output", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Rule.ID != "login" || list[1].Rule.ID != "search-per-user" || list[1].Revision == 0 {
		t.Errorf("list as JSON: got %+v, want login and search-per-user", list)
	}

	s.refuses(cli.ExitFailure, "412", "rules", "delete", "login", "--revision", "1")
	s.want("deleted rule login", "rules", "delete", "login")
	s.refuses(cli.ExitFailure, `no rule "login"`, "rules", "get", "login")
	s.want("delete rule login", "rules", "history", "login")
	pruned := list[1].Revision + 1 // the change after the one that made it
	s.want("would create 1", "rules", "rollback", fmt.Sprint(pruned), "--dry-run")
	s.want("created 1", "rules", "rollback", fmt.Sprint(pruned))
	s.want("id: login", "rules", "get", "login")
	s.completes("login\t5/m", "rules", "get", "lo")

	writeFile(t, filepath.Join(dir, "search.yaml"), strings.ReplaceAll(searchRule, "10/s", "ten/s"))
	s.refuses(cli.ExitFailure, "search.yaml:6:14", "rules", "apply", "-f", dir)
	s.refuses(cli.ExitFailure, "no file", "rules", "apply")
	s.refuses(cli.ExitFailure, "want the number of a revision", "rules", "rollback", "yesterday")
}

func TestClientAndOverrideCommands(t *testing.T) {
	s := newShell(t)
	path := rulesFile(t, searchRule)
	s.want("created 1", "rules", "apply", "-f", path)

	if out, errs, code := s.run(`{"id":"acme","limits":["50/s"]}`+"\n"+`{"id":"other"}`+"\n", "clients", "import", "-"); code != cli.ExitOK || !strings.Contains(out, "2 clients: created 2") {
		t.Fatalf("import: exit %d, want 0 and 2 created:\n%s%s", code, out, errs)
	}
	s.want("user: acme", "clients", "list", "--search", "acme")
	s.want("client other is at revision", "clients", "set", "other", "--attribute", "api_key=k1", "--attribute", "api_key=k2", "--limit", "7/s")
	s.want("api_key: [k1, k2]", "clients", "get", "other")
	s.refuses(cli.ExitFailure, "412", "clients", "set", "other", "--revision", "0")
	s.refuses(cli.ExitFailure, "limits", "clients", "set", "other", "--limit", "many")
	s.refuses(cli.ExitFailure, "must be ATTRIBUTE=VALUE", "clients", "set", "other", "--attribute", "acme")
	_, errs, code := s.run("", "overrides", "create", "--id", "idle", "--client", "cookie.x=1", "--block", "--for", "1h")
	if code != cli.ExitOK || !strings.Contains(errs, "no rule counts by cookie.x") {
		t.Errorf("an override that no rule counts by: exit %d, %q; want 0 and a warning", code, errs)
	}
	await.NoError(t, "the client's own limit", func() error { return s.holds("50 of 50", "keys", "get", "user=acme") })
	s.want("500/s", "overrides", "create", "--id", "launch", "--client", "user=acme", "--limit", "500/s", "--for", "1h", "--note", "their launch")
	s.want("their launch", "overrides", "list")
	await.NoError(t, "the override", func() error { return s.holds("500 of 500", "keys", "get", "user=acme") })
	s.want("deleted override launch", "overrides", "delete", "launch")
	await.NoError(t, "the end of the override", func() error { return s.holds("50 of 50", "keys", "get", "user=acme") })
	s.want("reset user=acme", "keys", "reset", "user=acme", "--rule", "search-per-user")
	s.refuses(cli.ExitFailure, "must be ATTRIBUTE=VALUE", "keys", "get", "acme")
	s.refuses(cli.ExitFailure, "limits", "overrides", "create", "--client", "user=acme", "--limit", "many", "--for", "1h")
	s.want("deleted client acme", "clients", "delete", "acme")
}

// holds returns an error unless the command writes these words.
func (s *shell) holds(words string, args ...string) error {
	out, errs, code := s.run("", args...)
	if code != cli.ExitOK || !strings.Contains(out, words) {
		return fmt.Errorf("want %q in:\n%s%s", words, out, errs)
	}
	return nil
}

func TestTokenNodeAndBackupCommands(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	viewer := filepath.Join(dir, "viewer")
	s.want("token bob is in", "tokens", "create", "--id", "bob", "--role", "viewer", "--in", "default", "--write", viewer)
	if info, err := os.Stat(viewer); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of a token: got %v, %v; want mode 0600", info, err)
	}
	s.want("demo-per-address", "rules", "list", "--token-file", viewer)
	s.refuses(cli.ExitFailure, "403", "rules", "delete", "demo-per-address", "--token-file", viewer)
	s.want("bob", "tokens", "list")
	s.want("revoked token bob", "tokens", "revoke", "bob")
	s.refuses(cli.ExitFailure, "401", "rules", "list", "--token-file", viewer)
	s.refuses(cli.ExitFailure, "required flag", "tokens", "create")

	await.NoError(t, "a node that has said how it is", func() error { return s.holds("127.0.0.1", "nodes") })

	saved := filepath.Join(dir, "saved")
	s.want("saved to", "backup", saved)
	s.refuses(cli.ExitFailure, "the rules service says", "restore", saved) // it is not empty
	if _, err := os.Stat(saved + ".part"); err == nil {
		t.Error("a part of a backup was left behind")
	}
	s.refuses(cli.ExitFailure, "no context", "rules", "list", "--context", "elsewhere")
	s.want("*  here", "context", "list")
	s.want("", "context", "remove", "here")
	s.refuses(cli.ExitFailure, "connect", "rules", "list", "--server", "http://127.0.0.1:1", "--timeout", "5s")
}

func TestUnreadableContextsFileIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	writeFile(t, path, "current: production\ncontexts: [\n")
	s := &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + path}}
	for _, args := range [][]string{
		{"rules", "list"},
		{"rules", "list", "--context", "production"},
		{"rules", "list", "--server", "http://127.0.0.1:1"},
		{"tokens", "list"},
		{"context", "list"},
	} {
		s.refuses(cli.ExitFailure, "contexts: "+path+": ", args...)
	}
	s.env = []string{"HEADGATE_CONTEXTS=" + t.TempDir()} // a directory
	s.refuses(cli.ExitFailure, "is a directory", "rules", "list")

	// Where there is no home there are no contexts, and none is missed.
	s.env = nil
	s.refuses(cli.ExitFailure, "connect", "rules", "list", "--server", "http://127.0.0.1:1", "--timeout", "5s")
	s.refuses(cli.ExitFailure, "neither HOME nor XDG_CONFIG_HOME", "rules", "list", "--context", "production")
}

func TestContextNeedsTheURLOfAService(t *testing.T) {
	s := &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + filepath.Join(t.TempDir(), "contexts.yaml")}}
	for _, bad := range []string{"", "nonsense", "ftp://x", "http://", "http://user:hush@x"} {
		s.refuses(cli.ExitFailure, "--server: want the URL of a rules service", "context", "set", "bad", "--server", bad)
	}
}

func TestOnlyAnEmptyClientListPrunesClients(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	rule, clients := filepath.Join(dir, "rule.yaml"), filepath.Join(dir, "clients.yaml")
	writeFile(t, rule, searchRule)
	writeFile(t, clients, "clients: [{ id: acme, limits: [50/s] }]\n")
	s.want("create client acme", "rules", "apply", "-f", dir, "--prune")
	s.want("deleted 0, unchanged 1", "rules", "apply", "-f", rule, "--prune") // it says nothing of clients
	writeFile(t, clients, "clients: []\n")
	s.want("deleted 0, unchanged 1", "rules", "apply", "-f", dir)
	s.refuses(cli.ExitDiffers, "delete client acme", "rules", "diff", "-f", dir, "--prune")
	s.want("delete client acme", "rules", "apply", "-f", dir, "--prune")
	s.want("none", "clients", "list")
	s.want("search-per-user", "rules", "list")
	writeFile(t, clients, "clients: [{ id: acme }]\n")
	s.want("create client acme", "rules", "apply", "-f", clients)
	writeFile(t, rule, "{rules: [], clients: []}\n")
	s.want("delete client acme", "rules", "apply", "-f", rule, "--prune")
	s.want("none", "rules", "list")
}

// completes has a line completed until these words come: a shell does not wait for long, and who is busy asks once
// more.
func (s *shell) completes(words string, line ...string) {
	s.t.Helper()
	await.NoError(s.t, "completion", func() error { return s.holds(words, append([]string{"__complete"}, line...)...) })
}

func TestIDsAreCompletedAmongManyRules(t *testing.T) {
	s := newShell(t)
	var file strings.Builder
	file.WriteString("rules:\n")
	for i := range 1200 { // all of which have "zoo" in them, and come before
		fmt.Fprintf(&file, "  - { id: a%04d, limits: 1/s, description: not zoo }\n", i)
	}
	file.WriteString("  - { id: zoo, limits: 7/s }\n")
	s.want("created 1201", "rules", "apply", "-f", rulesFile(t, file.String()))
	s.completes("zoo\t7/s", "rules", "get", "zoo")
	s.completes("a0999\t1/s", "rules", "get", "a0")
}
