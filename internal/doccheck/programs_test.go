package doccheck

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	// What programs import, so that no result comes from the test cache when one of these has changed.
	_ "github.com/headgate/headgate"
	_ "github.com/headgate/headgate/limittest"
	_ "github.com/headgate/headgate/memstore"
	_ "github.com/headgate/headgate/pacer"
)

const root = "../.."

// documents returns the paths of all that is written for users, from the root.
func documents(t *testing.T) []string {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
	for _, dir := range []string{"docs", "docs/howto", "docs/reference", "docs/runbooks", "docs/decisions", "deploy"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %d documents (%v), want some", dir, len(found), err)
		}
		for _, path := range found {
			paths = append(paths, filepath.Join(dir, filepath.Base(path)))
		}
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A block is a fenced block of a document.
type block struct {
	line     int // of its first line
	language string
	text     string
}

// blocks returns the fenced blocks of a text.
func blocks(text string) []block {
	var found []block
	var open *block
	n := 0
	for line := range strings.Lines(text) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{line: n + 1, language: fence}
		case isFence:
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return found
}

func TestBlocksAreFound(t *testing.T) {
	got := blocks("a\n```go\nx\ny\n```\nb\n\n```\nz\n```\n")
	want := []block{{line: 3, language: "go", text: "x\ny\n"}, {line: 9, text: "z\n"}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A program is built as its reader would: in a module of its own that requires this one.
func TestProgramsInDocumentsCompile(t *testing.T) {
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module reader\n\ngo 1.26.0\n")
	write("go.work", workspaceWith(read(t, "go.work"), module))
	if sums, err := os.ReadFile(filepath.Join(root, "go.work.sum")); err == nil {
		write("go.work.sum", string(sums))
	}
	programs := 0
	for _, path := range documents(t) {
		for _, b := range blocks(read(t, path)) {
			if b.language != "go" {
				continue
			}
			name := path + ":" + strconv.Itoa(b.line)
			if _, err := parser.ParseFile(token.NewFileSet(), name, b.text, parser.SkipObjectResolution); err != nil {
				t.Errorf("not a whole file: %v", err)
				continue
			}
			programs++
			write("program"+strconv.Itoa(programs)+"/main.go", "//line "+name+"\n"+b.text)
		}
	}
	if programs == 0 {
		t.Fatal("no programs found")
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOWORK=", "GOFLAGS=", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

// workspaceWith returns the text of a go.work file with all modules of another one, whose directory is dir, and with the
// module beside it.
func workspaceWith(text, dir string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch fields := strings.Fields(line); {
		case len(fields) == 1 && strings.HasPrefix(fields[0], "."):
			line = "\t" + strconv.Quote(filepath.Join(dir, fields[0])) + "\n"
		case strings.Contains(line, " => "):
			before, path, _ := strings.Cut(line, " => ")
			line = before + " => " + strconv.Quote(filepath.Join(dir, strings.TrimSpace(path))) + "\n"
		}
		out.WriteString(line)
		if line == "use (\n" {
			out.WriteString("\t.\n")
		}
	}
	return out.String()
}
