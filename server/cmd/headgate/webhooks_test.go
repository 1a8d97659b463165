package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

func TestWebhookCommandsAndAudit(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	writeFile(t, token, "a-token-for-tests-of-32-characters\n")
	config := filepath.Join(dir, "headgate.yaml")
	writeFile(t, config, "rules_service: { hook_networks: [127.0.0.0/8] }\n")
	p := serve(t, "--gateway-addr", "off", "--config", config, "--data-dir", filepath.Join(dir, "data"), "--admin-token-file", token)
	s := &shell{t: t, env: []string{"HEADGATE_CONTEXTS=" + filepath.Join(dir, "contexts.yaml"), "HEADGATE_SERVER=http://" + p.admin, "HEADGATE_TOKEN_FILE=" + token}}
	var gone atomic.Bool
	gone.Store(true)
	taker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone) // which is not tried again
		}
	}))
	t.Cleanup(taker.Close)

	s.want("none", "webhooks", "list")
	secret := filepath.Join(dir, "secret")
	s.want("the secret of webhook deploys is in", "webhooks", "create", "--id", "deploys", "--url", taker.URL, "--write", secret, "--description", "for the tests")
	s.refuses(cli.ExitFailure, "409", "webhooks", "create", "--id", "deploys", "--url", taker.URL)
	s.refuses(cli.ExitFailure, "public network", "webhooks", "create", "--url", "http://10.0.0.1/")
	s.refuses(cli.ExitFailure, "required flag", "webhooks", "create")
	writeFile(t, secret, "a secret of one's own\n")
	s.want("created webhook own", "webhooks", "create", "--id", "own", "--url", taker.URL+"/own", "--secret-file", secret)
	s.want("deploys", "webhooks", "list")
	s.want(`"id": "deploys"`, "webhooks", "list", "--output", "json")
	s.want("description: for the tests", "webhooks", "get", "deploys")
	s.completes("deploys\t"+taker.URL, "webhooks", "deliveries", "dep")
	s.want("deleted webhook own", "webhooks", "delete", "own")
	s.refuses(cli.ExitFailure, "404", "webhooks", "get", "own")

	s.want("none", "webhooks", "deliveries", "deploys")
	revision := regexp.MustCompile(`revision (\d+)`).FindStringSubmatch(s.want("created 1", "rules", "apply", "-f", rulesFile(t, searchRule)))[1]
	await.NoError(t, "a dead letter", func() error { return s.holds("dead", "webhooks", "deliveries", "deploys", "--dead") })
	gone.Store(false)
	s.want("to webhook deploys again", "webhooks", "retry", "deploys", revision, "--note", "repaired")
	if out := s.want("sent delivery "+revision+" of webhook deploys again", "audit", "--kind", "event"); !strings.Contains(out, "repaired") {
		t.Errorf("the audit lacks the note:\n%s", out)
	}
	await.NoError(t, "what was sent again to be taken", func() error { return s.holds("delivered", "webhooks", "deliveries", "deploys") })
	s.want("none", "webhooks", "deliveries", "deploys", "--dead")
	s.refuses(cli.ExitFailure, "want the number of a delivery", "webhooks", "retry", "deploys", "last")
	s.refuses(cli.ExitFailure, "404", "webhooks", "retry", "deploys", "999999")

	s.want("create rule search-per-user", "audit")
	s.want("create webhook deploys", "audit", "--kind", "webhook", "--id", "deploys")
	if out := s.want("webhooks.create", "audit", "--kind", "webhook", "--output", "json"); strings.Contains(out, "one's own") || strings.Contains(out, `"secret"`) {
		t.Errorf("the audit has a secret:\n%s", out)
	}
	s.want("127.0.0.1", "audit", "--limit", "1")
	s.want("token bob is in", "tokens", "create", "--id", "bob", "--role", "viewer", "--write", filepath.Join(dir, "bob"))
	s.want("create token bob", "audit", "--all", "--kind", "token")
	s.refuses(cli.ExitFailure, "kind", "audit", "--kind", "colour")
	s.refuses(cli.ExitFailure, "403", "audit", "--token-file", filepath.Join(dir, "bob"))
	writeFile(t, filepath.Join(dir, "bob"), "hg_bob_wrong\n")
	s.refuses(cli.ExitFailure, "401", "audit", "--token-file", filepath.Join(dir, "bob"))
	s.want("refused", "audit", "--logins")
}
