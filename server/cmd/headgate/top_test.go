package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/top"
)

// A node reports its traffic to a remote rules service, where one command says which client is denied most, by which
// rule. Another erases the client.
func TestTopNamesTheMostDeniedClientOfTheFleet(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	service := serve(t, "--gateway-addr", "off", "--admin-token-file", admin, "--db", t.TempDir()+"/rules.db")
	s := &shell{t: t, env: []string{
		"HEADGATE_CONTEXTS=" + t.TempDir() + "/contexts.yaml", "HEADGATE_SERVER=http://" + service.admin,
		"HEADGATE_TOKEN_FILE=" + admin,
	}}
	rules := newFile(t, "rules.yaml", "rules: [{ id: search-per-user, key: user, limits: 5/h }]\n")
	s.want("created 1", "rules", "apply", "-f", rules)
	node := serve(t, "--gateway-addr", "off", "--control", "http://"+service.admin, "--token-file",
		nodeToken(t, rulesService(t, service)), "--data-dir", t.TempDir(), "--node-id", "far")
	for range 20 {
		response, err := http.Post("http://"+node.api+"/v1/ratelimit", "application/json",
			strings.NewReader(`{"client":{"userId":"noisy"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	// A client of the first minute of the window counts with a part, so the window is longer than the test.
	await.NoError(t, "the rules service to know of the client", func() error {
		var f top.Figures
		if err := json.Unmarshal([]byte(s.want("", "top", "--once", "-o", "json", "--window", "10m")), &f); err != nil {
			return err
		}
		if len(f.Clients) == 0 {
			return fmt.Errorf("got no clients")
		}
		c := f.Clients[0]
		if c.Client != `{"user":"noisy"}` || c.Rule != "search-per-user" || c.Requests != 20 || c.Denied != 15 {
			return fmt.Errorf("got %+v", c)
		}
		return nil
	})
	if out := s.want("", "top", "--once", "--order", "requests", "--window", "10m"); !strings.Contains(out, "user=noisy  search-per-user  20") {
		t.Errorf("got\n%s\nwant the client with its rule", out)
	}
	if out := s.want("", "top", "--once"); !regexp.MustCompile(`(?m)^NODE +REGION +REVISION +SEEN +STORE\n(.*\n)*far `).MatchString(out) {
		t.Errorf("got\n%s\nwant the node far in a table of nodes", out)
	}
	// The node that decided is asked for its last decisions.
	out := s.want("", "traffic", "decisions", "user=noisy", "--denied", "--limit", "100")
	if got := strings.Count(out, "user=noisy  search-per-user  reject   5/h    0 "); got != 15 {
		t.Errorf("got %d denials, want 15:\n%s", got, out)
	}
	if got := strings.Count(s.want("", "traffic", "decisions", "user=noisy", "--limit", "100"), "  allow  "); got != 5 {
		t.Errorf("got %d decisions that allow, want 5", got)
	}
	s.want("erased", "traffic", "erase", "user=noisy")
	if out := s.want("", "top", "--once"); strings.Contains(out, "noisy") {
		t.Errorf("got\n%s\nwant nothing of the erased client", out)
	}
}
