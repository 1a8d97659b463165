package algorithm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/algorithm"
)

// TestNewAlgorithmByTheRecipe adds an algorithm as CONTRIBUTING.md says, to the files as the compiler sees them, and
// runs the suites with it: one .go, one .lua, one case file, one line.
func TestNewAlgorithmByTheRecipe(t *testing.T) {
	if testing.Short() {
		t.Skip("builds four packages and their tests")
	}
	r := newRecipe(t)
	r.add("algorithm/noonwindow.go", "testdata/recipe/noonwindow.go.txt")
	r.add("algorithm/noonwindow.lua", "testdata/recipe/noonwindow.lua")
	r.add("algorithm/testdata/noonwindow.txt", "testdata/recipe/noonwindow.txt")
	r.insert("algorithm.go", "\tConcurrency: ", "\t{\"noon-window\", 0},\n")
	r.generate()

	r.test(".", ".", "")
	r.test("./rules", "Algorithms", "")
	r.test("./algorithm", ".", "/noon-window")
	r.test("./memstore", "Limiter|Oracle|Allocat", "_noon-window")
	r.test("./redisstore", "StandaloneConforms|Oracle|Lua|Returned", "_noon-window")
}

// A recipe is an overlay: files of the module as the go command is to see them.
type recipe struct {
	*testing.T
	root, dir string
	Replace   map[string]string
}

func newRecipe(t *testing.T) *recipe {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return &recipe{T: t, root: root, dir: t.TempDir(), Replace: map[string]string{}}
}

// add adds a file.
func (r *recipe) add(name, from string) {
	r.Helper()
	from, err := filepath.Abs(from)
	if err != nil {
		r.Fatal(err)
	}
	r.Replace[filepath.Join(r.root, name)] = from
}

// insert adds a line behind the one that begins with some text.
func (r *recipe) insert(name, behind, line string) {
	r.Helper()
	path := filepath.Join(r.root, name)
	text, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), behind)
	if !found {
		r.Fatalf("%s has no line that begins with %q", name, behind)
	}
	end := len(text) - len(after) + strings.Index(after, "\n") + 1
	changed := string(text[:end]) + line + string(text[end:])
	r.Replace[path] = filepath.Join(r.dir, filepath.Base(name))
	if err := os.WriteFile(r.Replace[path], []byte(changed), 0o600); err != nil {
		r.Fatal(err)
	}
}

// generate does what go generate ./algorithm does.
func (r *recipe) generate() {
	r.Helper()
	list := filepath.Join(r.dir, "all.go")
	r.run("run", "./internal/algorithmlist", list)
	r.Replace[filepath.Join(r.root, "algorithm", "all.go")] = list
}

// test runs tests of a package. Some whose name ends with a text must have passed and, if there is a text, the cases
// too.
func (r *recipe) test(where, run, name string) {
	r.Helper()
	out := r.run("test", "-short", "-v", "-run", run, "-skip", "Soak|^"+r.Name()+"$", where)
	wants := []string{name + " ("}
	if name != "" {
		wants = append(wants, "/noonwindow/a_clock_that_steps_back (")
	}
	for _, want := range wants {
		if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
			return strings.Contains(line, "--- PASS: ") && strings.Contains(line, want)
		}) {
			r.Errorf("%s: no test %q has passed", where, want)
		}
	}
}

// run runs the go command on the module with the recipe's files.
func (r *recipe) run(command string, args ...string) (output string) {
	r.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": r.Replace})
	if err != nil {
		r.Fatal(err)
	}
	file := filepath.Join(r.dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		r.Fatal(err)
	}
	cmd := exec.CommandContext(r.Context(), "go", append([]string{command, "-overlay", file}, args...)...)
	cmd.Dir = r.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("go %s %s: %v\n%s", command, strings.Join(args, " "), err, failures(string(out)))
	}
	return string(out)
}

// failures returns the lines of an output that say what failed: those of tests that pass, and what they log, are many.
func failures(output string) string {
	var kept, logged []string
	for line := range strings.Lines(output) {
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(text, "--- PASS"), strings.HasPrefix(text, "=== "):
			logged = nil
		case strings.HasPrefix(text, "--- FAIL"), strings.HasPrefix(text, "FAIL"), strings.HasPrefix(text, "panic"):
			kept = append(append(kept, logged...), line)
			logged = nil
		default:
			logged = append(logged, line)
		}
	}
	kept = append(kept, logged...)
	return strings.Join(kept[:min(len(kept), 100)], "")
}

// TestEveryAlgorithmHasItsFiles looks for the files that are found by name.
func TestEveryAlgorithmHasItsFiles(t *testing.T) {
	for _, a := range algorithms() {
		name := strings.ReplaceAll(a.String(), "-", "")
		cases, err := algorithm.Cases.ReadFile("testdata/" + name + ".txt")
		if err != nil || !strings.Contains(string(cases), "\ncase ") {
			t.Errorf("%s: testdata/%s.txt has no cases: %v", a, name, err)
		}
		if script := algorithm.Lua(a); !strings.Contains(script, "local step = "+name+"\n") {
			t.Errorf("%s: the script does not call %s of %s.lua", a, name, name)
		}
	}
}
