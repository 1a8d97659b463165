package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/contexts"
)

// A context that a flag names takes precedence over environment variables, and a token in the environment is sent only
// to the server in the environment.
func TestNamedContextOverridesVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(path, []byte(`
current: current
contexts:
  current: { server: "http://current:1", token_file: /current, namespace: c }
  staging: { server: "http://staging:1", token_file: /staging }
  bare: { server: "http://bare:1" }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	variables := []string{"HEADGATE_CONTEXTS=" + path, "HEADGATE_SERVER=http://variable:1", "HEADGATE_TOKEN_FILE=/variable", "HEADGATE_NAMESPACE=v"}
	for _, test := range []struct {
		environ []string
		flags   ServerFlags
		want    contexts.Target
	}{
		{variables[:1], ServerFlags{}, contexts.Target{Server: "http://current:1", TokenFile: "/current", Namespace: "c"}},
		{variables, ServerFlags{}, contexts.Target{Server: "http://variable:1", TokenFile: "/variable", Namespace: "v"}},
		{variables, ServerFlags{context: "staging"}, contexts.Target{Server: "http://staging:1", TokenFile: "/staging"}},
		{variables, ServerFlags{context: "bare"}, contexts.Target{Server: "http://bare:1"}},
		{variables, ServerFlags{context: "bare", Target: contexts.Target{TokenFile: "/flag", Namespace: "f"}}, contexts.Target{Server: "http://bare:1", TokenFile: "/flag", Namespace: "f"}},
		{[]string{variables[0], variables[2]}, ServerFlags{context: "bare"}, contexts.Target{Server: "http://bare:1", TokenFile: "/variable"}},
		{variables, ServerFlags{context: "staging", Target: contexts.Target{Server: "http://flag:1"}}, contexts.Target{Server: "http://flag:1", TokenFile: "/variable", Namespace: "v"}},
	} {
		p := &Program{Environ: test.environ}
		if got, err := p.target(&test.flags); err != nil || got != test.want {
			t.Errorf("%q %+v: got %+v, %v, want %+v", test.environ[1:], test.flags, got, err, test.want)
		}
	}
}
