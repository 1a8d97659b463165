package importrules

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/headgate/headgate"
	moduleRoot = "../.."
)

// A libraryPackage is one that programs import, named by its directory below the module's root.
type libraryPackage struct {
	dir       string
	mayImport []string // directories of the library packages it may import
	planned   bool     // it may be missing as yet
}

var library = []libraryPackage{
	{dir: "."},
	{dir: "algorithm", mayImport: []string{"."}},
	{dir: "memstore/internal/hashindex"},
	{dir: "memstore/internal/memory"},
	{dir: "internal/pages"},
	{
		dir:       "memstore",
		mayImport: []string{".", "algorithm", "internal/pages", "memstore/internal/hashindex", "memstore/internal/memory"},
	},
	{dir: "limittest", mayImport: []string{".", "algorithm"}},
	{dir: "pacer", mayImport: []string{"."}},
	{dir: "rules/internal/pattern", mayImport: []string{"."}},
	{dir: "rules/internal/yield"},
	{dir: "rules", mayImport: []string{".", "rules/internal/pattern", "rules/internal/yield"}},
	{
		dir:       "rules/registry",
		mayImport: []string{".", "rules", "internal/pages", "rules/internal/pattern", "rules/internal/yield"},
	},
	{dir: "rules/match", mayImport: []string{".", "rules", "rules/internal/pattern", "rules/internal/yield", "rules/registry"}},
	{dir: "identity", mayImport: []string{"."}},
	{dir: "internal/clock"},
	{dir: "internal/renewal", mayImport: []string{"internal/clock"}},
	{dir: "internal/bykey", mayImport: []string{".", "internal/clock", "internal/renewal"}},
	{dir: "engine", mayImport: []string{".", "rules", "rules/match", "rules/registry", "identity", "internal/clock", "internal/renewal"}},
	{dir: "httplimit", mayImport: []string{".", "rules", "rules/match", "identity", "engine", "internal/bykey"}},
}

// Imports can depend on the platform by build constraints, so each of these is asked.
var platforms = []string{"linux", "darwin", "windows"}

func TestLibraryDependsOnlyOnTheStandardLibrary(t *testing.T) {
	t.Parallel()
	for goos, deps := range libraryDeps(t) {
		for _, v := range foreign(deps) {
			t.Errorf("GOOS=%s: %s", goos, v)
		}
	}
}

func TestLibraryPackagesImportOnlyTheOnesBelowThem(t *testing.T) {
	t.Parallel()
	for goos, deps := range libraryDeps(t) {
		for _, v := range misdirected(deps) {
			t.Errorf("GOOS=%s: %s", goos, v)
		}
	}
}

// libraryDeps returns what the library packages depend on, by platform.
func libraryDeps(t *testing.T) map[string]graph {
	t.Helper()
	dirs := present(t, moduleRoot)
	byPlatform := map[string]graph{}
	for _, goos := range platforms {
		byPlatform[goos] = listDeps(t, moduleRoot, goos, dirs...)
		for _, dir := range dirs {
			if _, ok := byPlatform[goos][importPath(dir)]; !ok {
				t.Errorf("GOOS=%s: got no dependencies of %s", goos, importPath(dir))
			}
		}
	}
	return byPlatform
}

func TestForeignDependenciesAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		deps graph
		want []string
	}{
		{name: "no dependency", deps: graph{module: nil}},
		{name: "library packages only", deps: graph{
			module:                nil,
			module + "/algorithm": {module},
			module + "/memstore":  {module, module + "/algorithm"},
		}},
		{
			name: "a module of others",
			deps: graph{module + "/pacer": {"golang.org/x/time/rate"}, "golang.org/x/time/rate": nil},
			want: []string{module + "/pacer imports golang.org/x/time/rate"},
		},
		{
			name: "one of ours that is not of the library",
			deps: graph{module + "/engine": {module + "/redisstore"}, module + "/redisstore": nil},
			want: []string{module + "/engine imports " + module + "/redisstore"},
		},
		{
			name: "below a library package",
			deps: graph{module + "/rules": {module + "/rules/file"}, module + "/rules/file": nil},
			want: []string{module + "/rules imports " + module + "/rules/file"},
		},
		{
			name: "at second hand, each step named",
			deps: graph{
				module + "/memstore":   {module + "/internal/x"},
				module + "/internal/x": {"example.com/y"},
				"example.com/y":        nil,
			},
			want: []string{
				module + "/internal/x imports example.com/y",
				module + "/memstore imports " + module + "/internal/x",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := foreign(tt.deps); !slices.Equal(got, tt.want) {
				t.Errorf("foreign:\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestImportsAgainstTheirDirectionAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		deps graph
		want []string
	}{
		{name: "downwards", deps: graph{
			module:                nil,
			module + "/algorithm": {module},
			module + "/memstore":  {module, module + "/algorithm"},
			module + "/limittest": {module, module + "/algorithm"},
			module + "/pacer":     nil,
		}},
		{
			name: "the root imports nothing of ours",
			deps: graph{module: {module + "/algorithm"}},
			want: []string{module + " imports " + module + "/algorithm"},
		},
		{
			name: "algorithm imports only the root",
			deps: graph{module + "/algorithm": {module, module + "/pacer"}},
			want: []string{module + "/algorithm imports " + module + "/pacer"},
		},
		{
			name: "the conformance suite knows no store",
			deps: graph{module + "/limittest": {module, module + "/memstore"}},
			want: []string{module + "/limittest imports " + module + "/memstore"},
		},
		{
			name: "pacer imports only the root",
			deps: graph{module + "/pacer": {module, module + "/algorithm"}},
			want: []string{module + "/pacer imports " + module + "/algorithm"},
		},
		{
			name: "a transport knows no store",
			deps: graph{module + "/httplimit": {module + "/engine", module + "/memstore"}},
			want: []string{module + "/httplimit imports " + module + "/memstore"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := misdirected(tt.deps); !slices.Equal(got, tt.want) {
				t.Errorf("misdirected:\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestViolationsAreFoundInAModuleOnDisk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module " + module + "\n\ngo 1.26\n",
		"root.go":             "package headgate\n\nimport _ \"fmt\"\n",
		"internal/x/x.go":     "package x\n\nimport _ \"strings\"\n",
		"memstore/store.go":   "package memstore\n\nimport _ \"fmt\"\n",
		"pacer/pacer.go":      "package pacer\n\nimport _ \"" + module + "/memstore\"\n",
		"pacer/windows.go":    "//go:build windows\n\npackage pacer\n\nimport _ \"" + module + "/internal/x\"\n",
		"pacer/pacer_test.go": "package pacer\n\nimport _ \"example.com/only/in/tests\"\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	againstDirection := module + "/pacer imports " + module + "/memstore"
	fromOutside := module + "/pacer imports " + module + "/internal/x"
	for goos, want := range map[string]struct{ foreign, misdirected []string }{
		"linux":   {nil, []string{againstDirection}},
		"windows": {[]string{fromOutside}, []string{fromOutside, againstDirection}},
	} {
		deps := listDeps(t, dir, goos, "pacer")
		if got := foreign(deps); !slices.Equal(got, want.foreign) {
			t.Errorf("GOOS=%s foreign:\n got %q\nwant %q", goos, got, want.foreign)
		}
		if got := misdirected(deps); !slices.Equal(got, want.misdirected) {
			t.Errorf("GOOS=%s misdirected:\n got %q\nwant %q", goos, got, want.misdirected)
		}
	}
}

// A graph maps each package outside the standard library to what it imports outside the standard library.
type graph map[string][]string

// foreign returns the imports that lead out of the library.
func foreign(deps graph) []string {
	return violations(deps, func(_, imported string) bool { return findLibrary(imported) != nil })
}

// misdirected returns the imports of library packages that are not among those each of them may import.
func misdirected(deps graph) []string {
	return violations(deps, func(importer, imported string) bool {
		p := findLibrary(importer)
		return p == nil || slices.ContainsFunc(p.mayImport, func(dir string) bool { return importPath(dir) == imported })
	})
}

func violations(deps graph, allowed func(importer, imported string) bool) []string {
	var found []string
	for _, importer := range slices.Sorted(maps.Keys(deps)) {
		for _, imported := range deps[importer] {
			if !allowed(importer, imported) {
				found = append(found, importer+" imports "+imported)
			}
		}
	}
	return found
}

func findLibrary(imported string) *libraryPackage {
	for i, p := range library {
		if importPath(p.dir) == imported {
			return &library[i]
		}
	}
	return nil
}

func importPath(dir string) string { return path.Join(module, dir) }

// present returns the directories of the library packages that exist below root, and fails the test for one that should
// and does not.
//
// It reads each directory in this process, which makes the test cache notice when a file in it changes: what a child
// process such as go list reads is not seen by the cache.
func present(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	for _, p := range library {
		ok, err := hasGoFiles(filepath.Join(root, p.dir))
		switch {
		case err != nil:
			t.Fatal(err)
		case ok:
			found = append(found, p.dir)
		case !p.planned:
			t.Errorf("%s: no Go files", importPath(p.dir))
		}
	}
	return found
}

func hasGoFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go")
	}), err
}

// listDeps returns the packages in dirs below root and everything they depend on outside the standard library, as they
// are built for goos.
func listDeps(t *testing.T, root, goos string, dirs ...string) graph {
	t.Helper()
	args := []string{"list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{range .Imports}} {{.}}{{end}}{{end}}`}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list -deps %v: %v", dirs, err)
	}
	deps := graph{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			deps[fields[0]] = fields[1:]
		}
	}
	// All that is not standard is listed, so an import that is not listed is standard.
	for importer, imports := range deps {
		deps[importer] = slices.DeleteFunc(imports, func(i string) bool { _, listed := deps[i]; return !listed })
		slices.Sort(deps[importer])
	}
	return deps
}
