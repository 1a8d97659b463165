package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// run runs the command in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, failed bytes.Buffer
	p := program{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}
	code = p.run(context.Background(), args)
	return code, out.String(), failed.String()
}

// The rules that users can start from are right, and their tests pass.
func TestTheExamplesOfRulesPassLintAndTest(t *testing.T) {
	tests, err := filepath.Glob("../../examples/rules/*_test.yaml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("got %q, %v, want some examples", tests, err)
	}
	if code, stdout, stderr := run(t, append([]string{"rules", "test"}, tests...)...); code != 0 {
		t.Errorf("test: got %d\n%s%s", code, stdout, stderr)
	}
	for _, test := range tests {
		rules := strings.TrimSuffix(test, "_test.yaml") + ".yaml"
		if code, stdout, stderr := run(t, "rules", "lint", rules); code != 0 {
			t.Errorf("lint: got %d\n%s%s", code, stdout, stderr)
		}
	}
}
