package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A GoTest is the result of a test that logs its measurements.
type GoTest struct{ Pkg, Name, What string }

// RunGoTest runs a test of the repository and returns what it logged.
func RunGoTest(ctx context.Context, f GoTest, env ...string) (TestRow, error) {
	row := TestRow{Test: f.Name, What: f.What}
	root, err := Repository()
	if err != nil {
		return row, err
	}
	// #nosec G204 -- the names are those of the list above
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=20m", "-run", "^"+f.Name+"$", "./"+f.Pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), append(env, "GOWORK=")...)  // go.work joins the modules
	if inBench, ok := strings.CutPrefix(f.Pkg, "bench/"); ok { // a module that go.work does not name
		cmd.Dir, cmd.Env[len(cmd.Env)-1] = filepath.Join(root, "bench"), "GOWORK=off"
		cmd.Args[len(cmd.Args)-1] = "./" + inBench
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return row, fmt.Errorf("go test %s: %w", f.Name, errors.Join(ctx.Err(), err))
	}
	ran := false
	ran, row.Passed, row.Said = ReadTest(out, f.Name)
	if !ran {
		return row, fmt.Errorf("go test ./%s ran no test %s: %s%s", f.Pkg, f.Name, out, complaints.Bytes())
	}
	return row, nil
}

// Repository returns the directory of the measured module.
func Repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("run it in a checkout of the repository: no go.work in this folder or above it")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// logged is a line that a test logs, with where it does.
var logged = regexp.MustCompile(`^\s+[a-z_]+_test\.go:\d+: (.*)$`)

// ReadTest reads the output of go test -json: whether the test ran, whether it passed, and the lines that it and its
// subtests logged.
func ReadTest(out []byte, name string) (ran, passed bool, said []string) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || !strings.HasPrefix(e.Test+"/", name+"/") {
			continue
		}
		ran = true
		if e.Test == name && e.Action == "pass" {
			passed = true
		}
		if m := logged.FindStringSubmatch(strings.TrimRight(e.Output, "\n")); m != nil {
			text := m[1]
			if _, part, ok := strings.Cut(e.Test, "/"); ok {
				text = strings.ReplaceAll(part, "_", " ") + ": " + text
			}
			said = append(said, text)
		}
	}
	return ran, passed, said
}
