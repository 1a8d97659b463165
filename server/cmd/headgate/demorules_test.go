package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// newUpstream starts a service of a user's own and returns its URL.
func newUpstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestDemoRulesAreOnlyForTheBuiltInService(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	state := t.TempDir()
	args := onFreePort("--data-dir", state, "--admin-token-file", admin, "--upstream", newUpstream(t))
	p := serve(t, args...)
	newClient(t, p.gateway).want(50, http.StatusOK)
	page, err := rulesService(t, p).List(t.Context(), remote.Rules, remote.Query{})
	if err != nil || page.Total != 0 {
		t.Errorf("in front of a user's service: got %d rules, %v, want none", page.Total, err)
	}
}

func TestDemoRulesOfAnEarlierStartAreRemoved(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	args := onFreePort("--data-dir", t.TempDir(), "--admin-token-file", admin)
	p := serve(t, args...)
	client := rulesService(t, p)
	putRule(t, client, "demo-per-key", `{"id":"demo-per-key","key":["api_key"],"limits":["1000/s"]}`) // it is the user's now
	p.stop()

	p = serve(t, append(args, "--upstream", newUpstream(t))...)
	newClient(t, p.gateway).want(50, http.StatusOK)
	page, err := rulesService(t, p).List(t.Context(), remote.Rules, remote.Query{})
	if err != nil || page.Total != 1 || !strings.Contains(string(page.Resources()[0].Body()), "demo-per-key") {
		t.Errorf("in front of a user's service: got %+v, %v, want only the rule that the user has changed", page, err)
	}
}

func TestDemoRulesComeBackWithTheBuiltInService(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	args := onFreePort("--data-dir", t.TempDir(), "--admin-token-file", admin)
	rules := func(p *process) int {
		t.Helper()
		page, err := rulesService(t, p).List(t.Context(), remote.Rules, remote.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return page.Total
	}
	p := serve(t, args...)
	demo := rules(p)
	p.stop()
	if demo == 0 {
		t.Fatal("a new database has no demo rules")
	}

	p = serve(t, append(args, "--upstream", newUpstream(t))...)
	if got := rules(p); got != 0 {
		t.Errorf("in front of a user's service: got %d rules, want none", got)
	}
	p.stop()

	p = serve(t, args...)
	if got := rules(p); got != demo {
		t.Errorf("in front of the built-in service again: got %d rules, want %d", got, demo)
	}
	client := rulesService(t, p)
	for _, id := range []string{
		"demo-per-address", "demo-per-key", "demo-keys-per-address", "demo-per-client", "demo-search-shadow",
	} {
		if err := client.Delete(t.Context(), remote.Rules, id, control.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	if got := rules(serve(t, args...)); got != 0 {
		t.Errorf("after a user deleted them: got %d rules, want none", got)
	}
}

func TestRefusedUpstreamLeavesTheDatabaseAlone(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	args := onFreePort("--data-dir", t.TempDir(), "--admin-token-file", admin)
	serve(t, args...).stop()

	refused := append([]string{"serve", "--admin-addr", "127.0.0.1:0", "--api-addr", "off", "--grpc-addr", "off", "--resp-addr", "off"}, args...)
	c := exec.CommandContext(t.Context(), "headgate", append(refused, "--upstream", "http://u:p@h:80")...)
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "--upstream") {
		t.Fatalf("got %v, %s, want an error about --upstream", err, out)
	}
	page, err := rulesService(t, serve(t, args...)).List(t.Context(), remote.Rules, remote.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Resources() {
		if page.Resources()[i].Revision > 2 {
			t.Errorf("rule %s is at revision %d, want it as the first start left it", page.Resources()[i].Body(), page.Resources()[i].Revision)
		}
	}
	if page.Total == 0 {
		t.Error("got no rules, want the demo rules")
	}
}
