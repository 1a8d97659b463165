package doccheck

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// libraries are the directories of the packages that programs import.
var libraries = []string{
	".", "algorithm", "memstore", "pacer", "limittest", "rules", "rules/match", "rules/registry", "rules/file", "identity",
	"identity/jwt", "identity/proxyproto", "engine", "httplimit", "grpclimit", "redisstore", "redisstore/guard", "client",
	"client/transport",
}

// The comment of every package begins with an example of at most ten lines, which the package's tests compile.
func TestPackagesBeginWithAnExampleThatCompiles(t *testing.T) {
	const most = 10
	for _, dir := range libraries {
		example := firstExample(t, dir)
		if n := strings.Count(example, "\n"); n == 0 || n > most {
			t.Errorf("%s: the package comment begins with an example of %d lines, want 1 to %d", dir, n, most)
		}
		if compiled := read(t, dir+"/doc_example_test.go"); !strings.Contains(unindented(compiled), unindented(example)) {
			t.Errorf("%s/doc_example_test.go does not contain the example of the package comment:\n%s", dir, example)
		}
	}
}

// firstExample returns the first code of a package comment, "" if there is none before the first heading.
func firstExample(t *testing.T, dir string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, dir, "doc.go"), nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range new(comment.Parser).Parse(textOf(file)).Content {
		switch block := block.(type) {
		case *comment.Heading:
			return ""
		case *comment.Code:
			return block.Text
		}
	}
	return ""
}

func textOf(file *ast.File) string { return file.Doc.Text() }

// unindented returns a text without the indentation of its lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// What "go doc" prints of the main package fits on two screens.
func TestDocOfTheMainPackageFitsOnTwoScreens(t *testing.T) {
	const most = 2 * 50 // lines of a terminal
	cmd := exec.CommandContext(t.Context(), "go", "doc", ".")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "\n"); n > most {
		t.Errorf("go doc prints %d lines, want at most %d", n, most)
	}
}
