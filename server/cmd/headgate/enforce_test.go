package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

const onceRule = `{"id":"once","limits":["1/h"]}`

// decide asks the decision service of a process for a decision of the rule once, and returns the status.
func decideOnce(t *testing.T, p *process) int {
	t.Helper()
	response, err := http.Post("http://"+p.api+"/v1/ratelimit", "application/json", strings.NewReader(`{"ruleId":"once"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// waitDecision waits until a process decides in a way.
func waitDecision(t *testing.T, p *process, want int) {
	t.Helper()
	await.NoError(t, fmt.Sprintf("a decision with status %d", want), func() error {
		if got := decideOnce(t, p); got != want {
			return fmt.Errorf("got %d", got)
		}
		return nil
	})
}

// A suspension is a rule, or all rules, that is not enforced.
type suspension struct {
	Rule  string `json:"rule"`
	Scope string `json:"scope"`
	Node  string `json:"node"`
}

// enforce runs headgate enforce against a process and returns the suspensions in its output.
func enforce(t *testing.T, p *process, args ...string) []suspension {
	t.Helper()
	code, stdout, stderr := runEnforce(t, p, append(args, "--output", "json"))
	if code != cli.ExitOK {
		t.Fatalf("headgate enforce %s: got %d: %s", strings.Join(args, " "), code, stderr)
	}
	var report struct {
		Off []suspension `json:"off"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%s: %v", stdout, err)
	}
	return report.Off
}

// enforceError runs headgate enforce, which must fail, and returns its message.
func enforceError(t *testing.T, p *process, args ...string) string {
	t.Helper()
	code, stdout, stderr := runEnforce(t, p, args)
	if code == cli.ExitOK {
		t.Errorf("headgate enforce %s: got %s, want an error", strings.Join(args, " "), stdout)
	}
	return stderr
}

func runEnforce(t *testing.T, p *process, args []string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	command := newProgram(cli.Program{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: []string{"HEADGATE_TOKEN=" + testAdminToken, "HEADGATE_SERVER=http://" + p.admin, "HOME=" + t.TempDir()},
	})
	code = command.run(t.Context(), append(append([]string{"enforce"}, args...), "--timeout", "1m"))
	return code, out.String(), errs.String()
}

func TestEnforceOffReachesEveryNodeAndEndsByItself(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	service := serve(t, "--gateway-addr", "off", "--admin-token-file", admin)
	client := rulesService(t, service)
	putRule(t, client, "once", onceRule)
	node := serve(t, "--gateway-addr", "off", "--control", "http://"+service.admin, "--token-file", nodeToken(t, client),
		"--data-dir", t.TempDir(), "--admin-token-file", admin)
	for _, p := range []*process{service, node} {
		waitDecision(t, p, http.StatusTooManyRequests)
	}

	if off := enforce(t, service, "off", "once", "--for", "30m", "--note", "test"); len(off) != 1 || off[0].Rule != "once" {
		t.Errorf("enforce off: got %+v", off)
	}
	for _, p := range []*process{service, node} {
		waitDecision(t, p, http.StatusOK)
		if _, status := p.status(); len(status.EnforcementOff) != 1 || status.EnforcementOff[0].Note != "test" {
			t.Errorf("/readyz: got %+v", status.EnforcementOff)
		}
		if _, metrics := get(t, "http://"+p.admin+"/metrics"); !strings.Contains(metrics, "headgate_enforcement_off_rules 1") {
			t.Error("the metrics do not show that a rule is off")
		}
	}
	var audit struct {
		Audit []struct{ Action, Note string }
	}
	if err := client.Do(t.Context(), http.MethodGet, "/v1/audit", nil, nil, &audit); err != nil {
		t.Fatal(err)
	}
	if len(audit.Audit) == 0 || audit.Audit[0].Action != "enforcement.off" || audit.Audit[0].Note != "test" {
		t.Errorf("audit: got %+v", audit.Audit)
	}
	if off := enforce(t, service, "on"); len(off) != 0 {
		t.Errorf("enforce on: got %+v", off)
	}
	for _, p := range []*process{service, node} {
		waitDecision(t, p, http.StatusTooManyRequests)
	}

	// It ends without another command.
	enforce(t, service, "off", "--all-namespaces", "--for", "2s")
	for _, p := range []*process{service, node} {
		await.Equal(t, "switches that took effect", func() int {
			return len(p.logged("enforcement off: requests over the limit are admitted and counted"))
		}, 2)
		waitDecision(t, p, http.StatusTooManyRequests)
	}

	// A switch of one node is seen where the fleet is managed.
	enforce(t, node, "off", "once", "--this-node", "--for", "5m")
	await.NoError(t, "the switch of the node in the rules service", func() error {
		if off := enforce(t, service, "status"); len(off) != 1 || off[0].Rule != "once" || off[0].Scope != "node" || off[0].Node == "" {
			return fmt.Errorf("got %+v", off)
		}
		return nil
	})
	enforce(t, node, "on", "--this-node")
	await.NoError(t, "the end of the switch in the rules service", func() error {
		if off := enforce(t, service, "status"); len(off) != 0 {
			return fmt.Errorf("got %+v", off)
		}
		return nil
	})
	if got := enforceError(t, service, "off", "nosuch"); strings.Contains(got, "--this-node") {
		t.Errorf("a rule that does not exist: got %s, want no advice about unreachable services", got)
	}
	const switchOne = "headgate enforce off once --for 1h30m --this-node --server "
	if got := enforceError(t, node, "off", "once", "--for", "90m"); !strings.Contains(got, switchOne+"http://"+node.admin) {
		t.Errorf("a node without a rules service: got %s, want the command for it", got)
	}

	// Without the rules service, the node can be switched alone.
	if code := service.stop(); code != 0 {
		t.Errorf("the service ended with %d", code)
	}
	if got := enforceError(t, service, "off", "once", "--for", "90m"); !strings.Contains(got, switchOne+"http://NODE:8084") {
		t.Errorf("without the rules service: got %s, want the command for one node", got)
	}
	if off := enforce(t, node, "off", "--this-node", "--for", "5m"); len(off) != 1 || off[0].Scope != "node" {
		t.Errorf("enforce off --this-node: got %+v", off)
	}
	if got := decideOnce(t, node); got != http.StatusOK {
		t.Errorf("after enforce off --this-node: got %d, want 200", got)
	}
	if off := enforce(t, node, "on", "--this-node"); len(off) != 0 {
		t.Errorf("enforce on --this-node: got %+v", off)
	}
	if got := decideOnce(t, node); got != http.StatusTooManyRequests {
		t.Errorf("after enforce on --this-node: got %d, want 429", got)
	}
}

// pprof and the switch of a node are for tokens, and pprof for those of admins.
func TestNodeAPIRefusesOtherTokens(t *testing.T) {
	t.Parallel()
	p := serve(t, "--gateway-addr", "off", "--admin-token-file", newFile(t, "admin-token", testAdminToken))
	client := rulesService(t, p)
	var editor struct{ Secret string }
	token := map[string]any{"id": "ed", "role": "editor", "namespaces": []string{"*"}}
	if err := client.Do(t.Context(), http.MethodPost, "/v1/tokens", nil, token, &editor); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, token string
		want        int
	}{
		{"/debug/pprof/", "", http.StatusUnauthorized},
		{"/debug/pprof/", "wrong-token-of-the-tests", http.StatusUnauthorized},
		{"/debug/pprof/heap", editor.Secret, http.StatusForbidden},
		{"/debug/pprof/heap", testAdminToken, http.StatusOK},
		{"/debug/pprof/profile?seconds=1", testAdminToken, http.StatusOK},
		{"/v1/node/enforcement", "", http.StatusUnauthorized},
		{"/v1/node/enforcement", editor.Secret, http.StatusOK},
		{"/v1/node/enforcement?namespace=other", editor.Secret, http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != tt.want {
			t.Errorf("%s with %q: got %d, want %d", tt.path, tt.token, response.StatusCode, tt.want)
		}
	}
}
