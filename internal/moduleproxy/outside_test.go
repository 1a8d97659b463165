package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// released is the version of the modules. It does not change with them, so that the build cache has what a change leaves
// as it is.
const released = Version + "-test"

// An outside is the environment of a user who has only released modules: a module proxy made of the tree, an empty
// module cache, and a directory in which the user's programs are.
type outside struct {
	t   *testing.T
	env []string
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs as their users do")
	}
	o := &outside{t: t}
	proxy := t.TempDir()
	modules, err := Modules("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if err := m.Write(proxy, released); err != nil {
			t.Fatal(err)
		}
	}
	// Modules of others come from the cache of the machine where it has them.
	downloads := filepath.Join(strings.TrimSpace(o.run("", "go", "env", "GOMODCACHE")), "cache", "download")
	usual := strings.TrimSpace(o.run("", "go", "env", "GOPROXY"))
	// With -trimpath, packages are found in the build cache again although each test's module cache is elsewhere.
	o.env = append(os.Environ(), "GOWORK=off", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-mod=mod -trimpath -modcacherw",
		"GOMODCACHE="+t.TempDir(), "GOPROXY=file://"+proxy+",file://"+downloads+","+usual)
	return o
}

func (o *outside) run(dir, name string, args ...string) string {
	o.t.Helper()
	// With an empty build cache, beside other tests, the command takes minutes to build.
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, o.env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		o.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// program creates a module with a program that imports the packages, gets the modules, and builds it.
func (o *outside) program(modules []string, packages ...string) (dir string) {
	o.t.Helper()
	dir = o.t.TempDir()
	text := "package main\n\nimport (\n"
	for _, p := range packages {
		text += fmt.Sprintf("\t_ %q\n", p)
	}
	text += ")\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.run(dir, "go", "mod", "init", "example.com/program")
	for _, m := range modules {
		o.run(dir, "go", "get", m+"@"+released)
	}
	o.run(dir, "go", "build", "-o", os.DevNull, ".")
	return dir
}

// compiledModules returns the modules whose packages are part of the program in dir, without the program's own.
func (o *outside) compiledModules(dir string) []string {
	o.t.Helper()
	list := o.run(dir, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	modules := strings.Fields(list)
	slices.Sort(modules)
	return slices.Compact(modules)
}

func TestLibraryProgramRequiresOnlyTheLibrary(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	dir := o.program([]string{repository}, repository, repository+"/memstore", repository+"/rules",
		repository+"/engine", repository+"/httplimit")
	got := strings.Split(strings.TrimSpace(o.run(dir, "go", "list", "-m", "all")), "\n")
	if want := []string{"example.com/program", repository + " " + released}; !slices.Equal(got, want) {
		t.Errorf("go list -m all:\n got %q\nwant %q", got, want)
	}
}

func TestProgramsCompileFewModules(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	for _, tt := range []struct {
		name     string
		modules  []string
		packages []string
		most     int
	}{
		{
			"Redis",
			[]string{repository + "/redisstore"},
			[]string{repository + "/redisstore", repository + "/redisstore/guard"},
			6,
		},
		{"outgoing requests", []string{repository + "/client"}, []string{repository + "/client/transport"}, 3},
	} {
		got := o.compiledModules(o.program(tt.modules, tt.packages...))
		t.Logf("%s: %q", tt.name, got)
		if len(got) > tt.most || slices.Contains(got, "google.golang.org/grpc") {
			t.Errorf("%s: got modules %q, want at most %d and no gRPC", tt.name, got, tt.most)
		}
	}
}

func TestCommandInstallsFromAProxy(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	bin := t.TempDir()
	o.env = append(o.env, "GOBIN="+bin)
	o.run(t.TempDir(), "go", "install", repository+"/server/cmd/headgate@"+released)
	if out := o.run("", filepath.Join(bin, "headgate"), "version"); !strings.Contains(out, released) {
		t.Errorf("headgate version prints %q, want it to contain %s", out, released)
	}
}
