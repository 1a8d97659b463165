package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/doctor"
)

// doctorFor runs headgate doctor with the decision service off and returns its output and exit code.
func doctorFor(ctx context.Context, t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	p := newProgram(cli.Program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	args = append([]string{"doctor", "--api-addr", "off", "--grpc-addr", "off", "--resp-addr", "off"}, args...)
	code := p.run(ctx, args)
	if errs.Len() > 0 {
		t.Errorf("got %q on standard error, want nothing", errs.String())
	}
	return out.String(), code
}

func TestDoctorAcceptsARunningNode(t *testing.T) {
	admin := newFile(t, "token", testAdminToken)
	p := serve(t, onFreePort("--data-dir", t.TempDir(), "--admin-token-file", admin)...)
	out, code := doctorFor(t.Context(), t, "--gateway-addr", p.gateway, "--admin-addr", p.admin, "--data-dir", t.TempDir())
	if code != cli.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", code, cli.ExitOK, out)
	}
	for _, want := range []string{p.gateway + " is in use by headgate", "rules.db does not exist", "0 problems"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s\nwant %q in it", out, want)
		}
	}
}

func TestDoctorChecksTheRulesService(t *testing.T) {
	admin := newFile(t, "token", testAdminToken)
	p := serve(t, onFreePort("--data-dir", t.TempDir(), "--admin-token-file", admin)...)
	node := nodeToken(t, rulesService(t, p))
	base := []string{"--gateway-addr", "off", "--admin-addr", "off", "--api-addr", "127.0.0.1:0", "--data-dir", t.TempDir()}
	for _, c := range []struct {
		name, url, token string
		code             int
		words            []string
	}{
		{"a valid token", "http://" + p.admin, node, cli.ExitOK, []string{"token nodes with the role node", "0 problems"}},
		{
			"an unknown token", "http://" + p.admin, newFile(t, "other", "not-a-token-of-this-service"), cli.ExitFailure,
			[]string{"problem  control", "fix: put a token with the role node"},
		},
		{
			"no service", "http://" + freeAddr(t), node, cli.ExitFailure,
			[]string{"problem  control", "connection refused", "fix: check that the rules service runs"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, code := doctorFor(t.Context(), t, append(base, "--control", c.url, "--token-file", c.token)...)
			if code != c.code {
				t.Errorf("got exit code %d, want %d:\n%s", code, c.code, out)
			}
			for _, want := range c.words {
				if !strings.Contains(out, want) {
					t.Errorf("got %s\nwant %q in it", out, want)
				}
			}
		})
	}
}

func TestDoctorPrintsResultsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, code := doctorFor(ctx, t, "--gateway-addr", "off", "--admin-addr", "off", "--api-addr", "127.0.0.1:0", "-o", "json")
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != cli.ExitOK || len(report.Checks) < 5 || report.Checks[0].Status != doctor.OK {
		t.Fatalf("got exit code %d and %+v, want the configuration to be checked", code, report)
	}
	for _, r := range report.Checks[1:] {
		if r.Status != doctor.Skipped {
			t.Errorf("got %+v, want it skipped", r)
		}
	}
}
