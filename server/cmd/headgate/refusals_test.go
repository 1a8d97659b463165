package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// says runs a command that has to fail and returns what it says.
func (s *shell) says(args ...string) string {
	s.t.Helper()
	_, errs, code := s.run("", args...)
	if code != cli.ExitFailure {
		s.t.Fatalf("headgate %s: exit %d, want %d\n%s", strings.Join(args, " "), code, cli.ExitFailure, errs)
	}
	return errs
}

func TestRefusalsArePrintedOnceWithAdvice(t *testing.T) {
	s := newShell(t)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	wrong := filepath.Join(t.TempDir(), "token")
	writeFile(t, wrong, "hg_nobody_0000\n")
	lines := filepath.Join(t.TempDir(), "two-lines")
	writeFile(t, lines, "one\ntwo\n")
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"headgate: the rules service says 422: The request has a problem.\n  role: \"boss\": want one of viewer, editor, admin, node\n", []string{"tokens", "create", "--role", "boss"}},
		{"headgate: the rules service says 401: The token is invalid: it does not exist, was revoked, or has expired.\n  set a token with --token-file, ", []string{"rules", "list", "--token-file", wrong}},
		{"headgate: token: " + lines + ": want one line of printable ASCII characters without spaces\n", []string{"rules", "list", "--token-file", lines}},
		{"headgate: nothing listens at http://127.0.0.1:1: is the rules service running?", []string{"rules", "list", "--server", "http://127.0.0.1:1"}},
		{"headgate: the rules service says 400: Client sent an HTTP request to an HTTPS server.\n", []string{"rules", "list", "--server", strings.Replace(secure.URL, "https", "http", 1)}},
		{"headgate: \"a.yaml\": give each file with -f: headgate rules apply -f a.yaml\n", []string{"rules", "apply", "a.yaml"}},
		{"headgate: \"b.yaml\": give each file with -f: headgate rules diff -f a.yaml -f b.yaml -f c.yaml\n", []string{"rules", "diff", "-f", "a.yaml", "b.yaml", "c.yaml"}},
		{"headgate: --until: \"Friday\": want a time such as", []string{"overrides", "create", "--client", "user=a", "--block", "--until", "Friday"}},
		{"headgate: --client: \"acme\": must be ATTRIBUTE=VALUE", []string{"overrides", "create", "--client", "acme", "--block", "--for", "1h"}},
	} {
		if got := s.says(tt.args...); !strings.HasPrefix(got, tt.want) {
			t.Errorf("headgate %s:\n got %s\nwant %s", strings.Join(tt.args, " "), got, tt.want)
		}
	}
}

func TestRevisionConflictShowsTheDifference(t *testing.T) {
	s := newShell(t)
	path := rulesFile(t, searchRule)
	s.want("created 1", "rules", "apply", "-f", path)
	writeFile(t, path, strings.ReplaceAll(searchRule, "10/s burst 20", "30/s"))
	for _, args := range [][]string{{"apply", "-f", path, "--revision", "1"}, {"delete", "search-per-user", "--revision", "1"}} {
		got := s.says(append([]string{"rules"}, args...)...)
		if !strings.Contains(got, "says 412: Somebody else has changed ") || !strings.Contains(got, "\n  -limits: [10/s burst 20, ") {
			t.Errorf("headgate rules %s: got\n%s\nwant what differs", strings.Join(args, " "), got)
		}
	}
}

func TestFailedImportReportsItsProgress(t *testing.T) {
	s := newShell(t)
	var lines strings.Builder
	for i := range 5001 {
		fmt.Fprintf(&lines, "{\"id\":\"c%d\"}\n", i)
	}
	lines.WriteString("{\"id\":\"bad\",\"limits\":[\"x\"]}\n")
	_, errs, code := s.run(lines.String(), "clients", "import", "-")
	for _, want := range []string{"\n  line 5002: limits[0]: ", "5000 clients registered before the error\n"} {
		if code != cli.ExitFailure || !strings.Contains(errs, want) {
			t.Errorf("exit %d, got %s, want %q", code, errs, want)
		}
	}
	out, errs, code := s.run(`{"id":"c0"}`, "clients", "import", "-", "--output", "yaml")
	if code != cli.ExitOK || !strings.HasPrefix(out, "revision: 2\nclients: 1\n") || !strings.Contains(out, "unchanged: 1\n") {
		t.Errorf("exit %d, got %s%s, want the present revision and one that is unchanged", code, out, errs)
	}
}

// reportTraffic reports denied requests of a client as a node does.
func (s *shell) reportTraffic(node string, client map[string]string) {
	s.t.Helper()
	p := cli.Program{Environ: s.env}
	c, err := p.Connect(&cli.ServerFlags{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	now := time.Now().Unix()
	report := traffic.Report{
		Node: node, Started: 1, Minute: now - now%60,
		Clients: []traffic.ClientCount{{Client: traffic.NewClient(client), Rule: "search-per-user", Requests: 20, Denied: 15}},
	}
	if err := c.Do(context.Background(), http.MethodPost, "/v1/traffic:report", nil, report, nil); err != nil {
		s.t.Fatal(err)
	}
}

func TestAuditListsEvents(t *testing.T) {
	s := newShell(t)
	s.want("created 1", "rules", "apply", "-f", rulesFile(t, searchRule))
	await.NoError(t, "the rule to be in force", func() error {
		return s.holds("reset user=acme", "keys", "reset", "user=acme", "--rule", "search-per-user")
	})
	got := s.want("reset user=acme under search-per-user", "audit", "--limit", "1")
	if !strings.Contains(got, "  keys.reset  ") || !strings.Contains(got, "  admin  ") || !strings.Contains(got, "  127.0.0.1  ") {
		t.Errorf("got\n%s\nwant who did it, from where", got)
	}
	s.reportTraffic("eu-1", map[string]string{"user": "noisy", "ip": "192.0.2.7"})
	s.want("erased 1 record\n", "traffic", "erase", "user=noisy", "ip=192.0.2.7")
	got = s.want("erased 1 record of a client, selected by ip, user", "audit", "--limit", "1")
	if !strings.Contains(got, "  traffic.erase  ") {
		t.Errorf("got\n%s\nwant the action", got)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	s.want("saved", "backup", saved)
	s.want("acme", "clients", "set", "acme")
	s.want("restored", "restore", "--replace", saved)
	s.want("revision 5 replaced by a backup of revision 4", "audit", "--all", "--kind", "event", "--limit", "1")
}
