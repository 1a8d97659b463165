package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// bash itself completes, with the script that it was given and nothing else: the package bash-completion may not be
// there.
func TestBashCompletesIDs(t *testing.T) {
	s := newShell(t)
	s.want("created 1", "rules", "apply", "-f", rulesFile(t, searchRule))
	s.want("acme", "clients", "set", "acme@example.com", "--limit", "5/s")
	s.want("", "tokens", "create", "--id", "alice", "--role", "viewer", "--in", "default")
	const complete = `
source <(headgate completion bash)
line() { # as bash calls it when somebody presses the tab key
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9 COMPREPLY=()
    COMP_POINT=${#COMP_LINE}
    __start_headgate 2>/dev/null
    echo "$*: ${COMPREPLY[*]}"
}
line headgate rules get sea
line headgate rules history search
line headgate rules delete demo-per-key demo-per-a
line headgate keys reset user = acme --rule sear
line headgate clients get ac
line headgate tokens revoke a
line headgate tokens create --role ed
line headgate rules list --context her
line headgate rules get search-per-user --output y
line headgate rules rollback ""
`
	c := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-c", complete)
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HEADGATE_") }), s.env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"rules get sea: search-per-user\n",
		"rules history search: search-per-user\n",
		"rules delete demo-per-key demo-per-a: demo-per-address\n",
		"--rule sear: search-per-user\n",
		"clients get ac: acme@example.com\n",
		"tokens revoke a: alice\n",
		"--role ed: editor\n",
		"--context her: here\n",
		"--output y: yaml\n",
		"rules rollback : 3 2 1\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
}
