package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/control/remote"
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
	at := rulesService(t, p)
	putRule(t, at, "demo-per-key", `{"id":"demo-per-key","key":["api_key"],"limits":["1000/s"]}`) // it is the user's now
	p.stop()

	p = serve(t, append(args, "--upstream", newUpstream(t))...)
	newClient(t, p.gateway).want(50, http.StatusOK)
	page, err := rulesService(t, p).List(t.Context(), remote.Rules, remote.Query{})
	if err != nil || page.Total != 1 || !strings.Contains(string(page.Objects[0].Body), "demo-per-key") {
		t.Errorf("in front of a user's service: got %+v, %v, want only the rule that the user has changed", page, err)
	}
}
