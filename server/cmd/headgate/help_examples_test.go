package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

// examplesOf returns the examples of a command and of those below it, a line each.
func examplesOf(c *cobra.Command) []string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) { // a backslash continues a line
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	for _, below := range c.Commands() {
		lines = append(lines, examplesOf(below)...)
	}
	return lines
}

// typed runs a line as somebody has typed it: by bash if it has something that a shell reads.
func (s *shell) typed(line string) (said string, code int) {
	s.t.Helper()
	if !strings.ContainsAny(line, "|$<>*~\"'") {
		out, errs, code := s.run("", strings.Fields(line)[1:]...)
		return out + errs, code
	}
	c := exec.CommandContext(s.t.Context(), "bash", "-c", line)
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HEADGATE_") || strings.HasPrefix(v, "HOME=") }), s.env...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// Words of examples that cannot be run here: they go on for ever, or are of servers, paths and moments that a test does not have.
var notHere = []string{
	"headgate serve", "source <(", "redis://cache", "--db /var/lib", "--token-file first-token", "headgate demo",
	"headgate doctor", // it checks the default ports; TestDoctor… run it
	"bench ramp --target", "bench load", "--calibrate",
}

// smallScenario is a scenario for headgate simulate.
const smallScenario = "duration: 1s\nlimits: [10/s]\ntraffic: [{ rate: 50 }]\n"

// changingWords are in examples that may change or delete what later ones need.
var changingWords = []string{
	" apply", " delete", " import", " restore", " rollback", " context ", " clients ", " rules ", " enforce", " erase",
}

// What each command's help shows can be typed as it is, where there is what it speaks of. A command whose examples change something in the
// rules service has --note.
func TestExamplesInTheHelpWork(t *testing.T) {
	racing.Skip(t, "commands compute in one goroutine, so there are no races")
	s := newShell(t)
	recorded := s.recordChanges()
	dir := t.TempDir()
	t.Chdir(dir)
	s.env = append(s.env, "HEADGATE_CONTEXT=here", "HOME="+dir)
	for _, sub := range []string{"rules", "tests", filepath.Join("examples", "scenarios")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const cases = "rules: %s\ncases:\n  - { name: one, request: { path: /search/a, user: u }, steps: [{ expect: allow }] }\n"
	for name, text := range map[string]string{
		"rules.yaml": searchRule, "candidate.yaml": searchRule, filepath.Join("rules", "search.yaml"): searchRule,
		"rules_test.yaml": fmt.Sprintf(cases, "rules.yaml"),
		"scenario.yaml":   smallScenario, filepath.Join("examples", "scenarios", "three-nodes.yaml"): smallScenario,
		filepath.Join("tests", "first.yaml"): fmt.Sprintf(cases, "../rules.yaml"),
		"clients.ndjson":                     `{"id":"acme","limits":["500/s"]}` + "\n",
		"admin-token":                        "a-token-that-nobody-has",
		"new.yaml":                           searchRule, "access.log": commonLog,
		"access.json": `{"time":"2026-10-10T13:55:36Z","path":"/search/a","user":"u"}`,
	} {
		writeFile(t, name, text)
	}
	// There are 45 revisions, so that 41 and 42 can be spoken of.
	for i := range 45 {
		s.want("acme", "clients", "set", "acme", "--limit", fmt.Sprintf("%d/s", i+1))
	}
	s.want("saved", "backup", "rules-2027-01-31.backup")
	changed := true // by the example before
	ready := func(line string) {
		if changed {
			s.run("", "rules", "apply", "-f", "rules.yaml")
			s.run("", "clients", "set", "acme", "--limit", "5/s")
			s.run("", "context", "set", "production", "--server", "https://rules.example.com")
			s.run("", "context", "set", "staging", "--server", "https://rules.example.com")
		}
		changed = slices.ContainsFunc(changingWords, func(word string) bool { return strings.Contains(line, word) })
		for thing, made := range map[string][]string{
			"tokens":    {"revoke", "alice", "create", "--id", "alice", "--role", "viewer"},
			"webhooks":  {"delete", "deploys", "create", "--id", "deploys", "--url", "https://hooks.example.com/headgate"},
			"overrides": {"delete", "launch", "create", "--id", "launch", "--client", "user=acme", "--limit", "5/s", "--for", "1h"},
		} {
			if !strings.Contains(line, "headgate "+thing) {
				continue
			}
			s.run("", append([]string{thing}, made[:2]...)...)
			if !strings.Contains(line, " create ") {
				s.want("", append([]string{thing}, made[2:]...)...)
			}
		}
		if strings.Contains(line, "headgate nodes") {
			s.heartbeat("eu-1")
		}
	}
	root := newProgram(cli.Program{}).rootCommand()
	lines := examplesOf(root)
	slices.Sort(lines)
	lines = slices.Compact(lines)
	ran, changing := 0, 0
	for _, line := range lines {
		if slices.ContainsFunc(notHere, func(word string) bool { return strings.Contains(line, word) }) {
			continue
		}
		ready(line)
		ran++
		recorded.take()
		out, code := s.typed(line)
		if changes := recorded.take(); len(changes) > 0 {
			changing++
			_, command, _ := strings.Cut(line, "headgate ") // there may be a pipe in front
			c, _, err := root.Find(strings.Fields(command))
			if err != nil || c.Flags().Lookup("note") == nil {
				t.Errorf("%s: calls %s and has no --note (%v), want it for the audit log", line, changes, err)
			}
		}
		if strings.Contains(line, "webhooks retry") {
			continue // there is no such delivery
		}
		good := code == cli.ExitOK || code == cli.ExitDiffers && strings.Contains(line, "rules diff") || code == cli.ExitDenied && (strings.Contains(line, "check") || strings.Contains(line, "explain"))
		if !good {
			t.Errorf("%s: exit %d\n%s", line, code, out)
		}
	}
	if ran < 50 || changing < 30 {
		t.Errorf("got %d examples, of which %d change something, want those of all commands", ran, changing)
	}
}
