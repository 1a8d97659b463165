package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/reference"
)

var (
	hrefs = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	ids   = regexp.MustCompile(` id="([^"]*)"`)
	block = regexp.MustCompile("(?ms)^ *```([a-z ]+)\n(.*?)^ *```$")
)

// Every link of the site leads to a page, and to a heading if it names one.
func TestLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	dir := t.TempDir()
	if code := newProgram(cli.Program{Stdout: io.Discard, Stderr: os.Stderr}).run(t.Context(), []string{"docs", "--dir", dir}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	pages := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		relative, _ := filepath.Rel(dir, name)
		pages[filepath.ToSlash(relative)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for name, text := range pages {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range hrefs.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			links++
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if to, ok := pages[target]; !ok || anchor != "" && !hasID(to, anchor) {
				t.Errorf("%s: link to %s leads nowhere", name, m[1])
			}
		}
	}
	if len(pages) < 40 || links < 1000 {
		t.Errorf("got %d pages and %d links, want the whole documentation", len(pages), links)
	}
}

func hasID(page, id string) bool {
	for _, m := range ids.FindAllStringSubmatch(page, -1) {
		if m[1] == id {
			return true
		}
	}
	return false
}

// docs/reference/commands.md has every command and every flag of the program.
func TestReferenceOfCommandsIsUpToDate(t *testing.T) {
	const path = "../../../docs/reference/commands.md"
	want := reference.Commands(newProgram(cli.Program{}).rootCommand())
	if os.Getenv("HEADGATE_UPDATE_REFERENCE") != "" {
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not up to date, set HEADGATE_UPDATE_REFERENCE=1 to write it: got\n%s\nwant\n%s", path, got, want)
	}
}

// The rules of each guide are valid, its test files pass, and its commands exist.
func TestGuidesWork(t *testing.T) {
	guides, err := filepath.Glob("../../../docs/howto/*.md")
	if err != nil || len(guides) < 8 {
		t.Fatalf("got %d guides (%v), want all", len(guides), err)
	}
	for _, guide := range guides {
		t.Run(strings.TrimSuffix(filepath.Base(guide), ".md"), func(t *testing.T) {
			text, err := os.ReadFile(guide)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var out string // of the last command
			for _, m := range block.FindAllStringSubmatch(string(text), -1) {
				switch m[1] {
				case "yaml":
					name := "rules.yaml"
					if strings.Contains(m[2], "\ncases:") {
						name = "rules_test.yaml"
					}
					writeFile(t, filepath.Join(dir, name), m[2])
					if name == "rules.yaml" {
						runIn(t, dir, "headgate rules lint rules.yaml")
					}
				case "sh":
					for line := range strings.Lines(m[2]) {
						out = runIn(t, dir, strings.TrimSpace(line))
					}
				case "text":
					if !strings.Contains(out, strings.TrimSpace(m[2])) {
						t.Errorf("got\n%s\nthe guide shows\n%s", out, m[2])
					}
				case "console":
					for line := range strings.Lines(m[2]) {
						checkUsage(t, strings.TrimSpace(line))
					}
				case "yaml envoy":
					startWithEnvoyFile(t, m[2])
				case "go", "nginx": // compiled by internal/doccheck; the configuration that the guide replaces
				default:
					t.Errorf("blocks of %q are not checked", m[1])
				}
			}
		})
	}
}

// runIn runs a line in a shell whose headgate is this program.
func runIn(t *testing.T, dir, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", line)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// commandLine is a line of a block, or code within a sentence, that runs the program.
var commandLine = regexp.MustCompile("(?m)^ *(?:\\$ )?(?:HEADGATE_\\w+=\\S+ )*(headgate .+)$|`(headgate [^`]+)`")

// Every command in the documents exists and has the flags that the documents give it.
func TestCommandsInDocumentsExist(t *testing.T) {
	found := 0
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/howto/*.md", "docs/runbooks/*.md", "deploy/README.md"} {
		documents, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil || len(documents) == 0 {
			t.Fatalf("%s: got %d documents (%v), want some", pattern, len(documents), err)
		}
		for _, document := range documents {
			text, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
				line := m[1] + m[2]
				for _, end := range []string{" #", " >", " |", " &"} {
					line, _, _ = strings.Cut(line, end)
				}
				t.Run(filepath.Base(document)+"/"+line, func(t *testing.T) { checkUsage(t, line) })
				found++
			}
		}
	}
	if found < 150 {
		t.Errorf("got %d commands, want those of all documents", found)
	}
}

// checkUsage checks that a command exists and has the flags of a line.
func checkUsage(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
	if words[0] != "headgate" {
		return
	}
	c, args, err := newProgram(cli.Program{}).rootCommand().Find(words[1:])
	switch {
	case err != nil:
		t.Errorf("%s: %v", line, err)
	case c.HasSubCommands() && len(args) > 0 && !strings.HasPrefix(args[0], "-"):
		t.Errorf("%s: headgate has no such command", line)
	default:
		if err := c.ParseFlags(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func startWithEnvoyFile(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "edge.yaml"), text)
	p := serve(t, onFreePort("--envoy-config", dir)...)
	if code, _ := get(t, "http://"+p.admin+"/readyz"); code != http.StatusOK {
		t.Errorf("got %d from /readyz, want 200", code)
	}
}

// Each command of the tutorial, typed in order, prints the lines that the tutorial shows.
func TestTutorialWorks(t *testing.T) {
	text, err := os.ReadFile("../../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	service := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "site"))))
	t.Cleanup(service.Close)
	var running *process
	var out string // of the last command
	shown := 0
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		switch m[1] {
		case "yaml":
			writeFile(t, filepath.Join(dir, "rules.yaml"), m[2])
			continue
		case "text":
			for line := range strings.Lines(m[2]) {
				shown++
				if !strings.Contains(out, strings.TrimSpace(line)) {
					t.Errorf("got\n%s\nthe tutorial shows %s", out, line)
				}
			}
			continue
		}
		for line := range strings.Lines(m[2]) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "python3"): // the test's own server has the same files, on a free port
			case strings.HasPrefix(line, "headgate serve"):
				running = serve(t, onFreePort("--upstream", service.URL, "--rules", filepath.Join(dir, "rules.yaml"))...)
			case running != nil:
				out = runIn(t, dir, strings.ReplaceAll(line, "127.0.0.1:8080", running.gateway))
			default:
				out = runIn(t, dir, line)
			}
		}
	}
	if shown < 7 {
		t.Errorf("the tutorial shows %d lines of output, want those of all steps", shown)
	}
	c := newClient(t, running.gateway)
	await.True(t, "the raised limit lets requests pass", func() bool { return c.must("/").Header.Get("X-RateLimit-Limit") == "50" })
}

// The search finds a section in a real browser, and leads to it.
func TestSearchFindsSections(t *testing.T) {
	p := serve(t, onFreePort()...)
	b := openBrowser(t, "http://"+p.admin)
	b.open("/docs/howto/login.html")
	b.see("the page", `document.querySelector("h1")?.textContent === "Protect a login"`)
	ask[bool](b, `(() => { const i = document.getElementById("search"); i.value = "drain_delay"; i.dispatchEvent(new Event("input")); return true })()`)
	b.see("results with the word", `[...document.querySelectorAll("#results mark")].some((m) => m.textContent === "drain_delay")`)
	ask[bool](b, `(() => { [...document.querySelectorAll("#results a")].find((a) => a.href.includes("operate.html")).click(); return true })()`)
	b.see("the section", `location.pathname === "/docs/operate.html" && location.hash !== ""`)
	if found := b.complained(); len(found) > 0 {
		t.Errorf("the browser reports %q", found)
	}
}
