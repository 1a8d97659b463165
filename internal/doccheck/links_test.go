package doccheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links    = regexp.MustCompile(`\]\(([^)]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor = regexp.MustCompile(`[^\pL\pN _-]`)
)

// written are files that a command writes, which may be missing.
var written = map[string]bool{"bench/RESULTS.md": true}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	for _, path := range documents(t) {
		text := read(t, path)
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if written[target] {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: link to %s: %v", path, m[1], err)
				continue
			}
			if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: link to %s: no such heading", path, m[1])
			}
		}
	}
}

// anchors returns the names by which the headings of a document are linked to.
func anchors(text string) map[string]bool {
	names := make(map[string]bool)
	for _, m := range headings.FindAllStringSubmatch(text, -1) {
		name := noAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

var testLinks = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+_test\\.go)\\)")

// A link whose label is the name of a test leads to the file with that test, so that a renamed test is noticed.
func TestLinksToTestsNameTestsOfTheirFile(t *testing.T) {
	found := 0
	for _, path := range documents(t) {
		for _, m := range testLinks.FindAllStringSubmatch(read(t, path), -1) {
			found++
			target := filepath.Join(filepath.Dir(path), m[2])
			if !strings.Contains(read(t, target), "func "+m[1]+"(") {
				t.Errorf("%s: link to %s: got no %s there, want it", path, m[2], m[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("got %d links to tests, want those of docs/security.md", found)
	}
}

// An example is to be read at a glance.
func TestExamplesAreShort(t *testing.T) {
	const most = 60
	programs, err := filepath.Glob(filepath.Join(root, "examples", "library", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"grpc", "tenants"} {
		programs = append(programs, filepath.Join(root, "examples", name, "main.go"))
	}
	if len(programs) < 7 {
		t.Errorf("got %d examples, want 7: plans, workers, outbound, grpc, llm, tenants and custom", len(programs))
	}
	for _, path := range programs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > most {
			t.Errorf("%s has %d lines, want at most %d", path, n, most)
		}
	}
}
