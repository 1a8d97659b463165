package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

// run runs the command in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, failed bytes.Buffer
	p := newProgram(cli.Program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &failed})
	code = p.run(context.Background(), args)
	return code, out.String(), failed.String()
}

// The rules that users can start from are right, and their tests pass.
func TestExampleRulesPassLintAndTest(t *testing.T) {
	tests, err := filepath.Glob("../../../examples/rules/*_test.yaml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("got %q, %v, want some examples", tests, err)
	}
	if code, stdout, stderr := run(t, append([]string{"rules", "test"}, tests...)...); code != 0 {
		t.Errorf("test: got %d\n%s%s", code, stdout, stderr)
	}
	for _, test := range tests {
		rules := strings.TrimSuffix(test, "_test.yaml") + ".yaml"
		if code, stdout, stderr := run(t, "rules", "lint", rules); code != 0 || stderr != "" {
			t.Errorf("lint: got %d, want 0 and no warning\n%s%s", code, stdout, stderr)
		}
	}
}

// Rules that requests can get around are right, and warned of.
func TestLintWarnsAboutRulesThatCanBeBypassed(t *testing.T) {
	t.Parallel()
	const quiet = "rules:\n  - id: login\n    when: { path: /login }\n    limits: 5/m\n"
	const text = quiet + "    case: exact\n    trailing_slash: exact\n"
	code, stdout, stderr := run(t, "rules", "lint", rulesFile(t, text))
	if code != 0 || !strings.Contains(stdout, "ok, 1 rule") || !strings.Contains(stderr, ":3:19: warning: rules[0].when.path: \"/login\"") ||
		!strings.Contains(stderr, "/login/ and /LOGIN") {
		t.Errorf("got %d\n%s%s", code, stdout, stderr)
	}
	_, stdout, _ = run(t, "rules", "lint", "--output", "json", rulesFile(t, text))
	if !strings.Contains(stdout, `"warnings"`) || !strings.Contains(stdout, `"ok": true`) {
		t.Errorf("in JSON: got %s", stdout)
	}
	code, _, stderr = run(t, "rules", "lint", rulesFile(t, quiet))
	if code != 0 || stderr != "" {
		t.Errorf("of one that covers both: got %d, %s, want no warning", code, stderr)
	}
}
