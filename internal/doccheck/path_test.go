package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Bounds for the path of a request through the gateway, so that a reader can follow it in one sitting.
const (
	maxPathFunctions = 45
	maxPathFiles     = 25
)

// pathStep is a row of the path: its number, the function, and the file.
var pathStep = regexp.MustCompile("(?m)^\\| \\d+ \\| `([^`]+)` \\| \\[[^]]+\\]\\(\\.\\./([^)]+)\\) \\|")

func TestPathOfARequestIsAsDocumented(t *testing.T) {
	steps := pathStep.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	if len(steps) < 20 {
		t.Fatalf("docs/architecture.md lists %d steps of a request, want the whole path", len(steps))
	}
	files := map[string]bool{}
	for _, step := range steps {
		name, file := step[1], step[2]
		files[file] = true
		if !declares(t, file, name) {
			t.Errorf("%s has no function %s", file, name)
		}
	}
	if len(steps) > maxPathFunctions || len(files) > maxPathFiles {
		t.Errorf("got %d functions in %d files, want at most %d in %d",
			len(steps), len(files), maxPathFunctions, maxPathFiles)
	}
}

// declares reports whether a file declares a function, or a method given as Type.Method.
func declares(t *testing.T, file, name string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.TrimPrefix(receiver(f)+"."+f.Name.Name, ".") == name {
			return true
		}
	}
	return false
}

// receiver returns the name of a method's type, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if pointer, ok := typ.(*ast.StarExpr); ok {
		typ = pointer.X
	}
	name, _ := typ.(*ast.Ident)
	return name.Name
}
