package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// tags are the build tags of the program. grpcnotrace excludes gRPC's web pages for tracing. Their templates would make
// the linker keep every method of every type, and the program 15 MB larger.
const tags = "grpcnotrace"

// compile builds the program for a target. The program is static and stripped, and does not depend on the host.
func (r *release) compile(ctx context.Context, work string, t *target) error {
	name := "headgate"
	if t.os == "windows" {
		name += ".exe"
	}
	t.binary = filepath.Join(work, t.String(), name)
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", tags,
		"-ldflags", r.linkerFlags(), "-o", t.binary, "./server/cmd/headgate")
	c.Dir, c.Stderr = r.root, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOFLAGS=",
		"GOWORK="+filepath.Join(r.root, "go.work"))
	if err := c.Run(); err != nil {
		return fmt.Errorf("build for %s: %w", t, err)
	}
	info, err := os.Stat(t.binary)
	if err != nil {
		return err
	}
	r.log("%s: program of %.1f MB", t, float64(info.Size())/1e6)
	return nil
}

func (r *release) linkerFlags() string {
	return fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s -X main.date=%s",
		r.version, r.commit, r.date.Format(time.RFC3339))
}

// A file is a file of an archive or package.
type file struct {
	name  string // in the archive
	mode  os.FileMode
	data  []byte
	owned bool // belongs to the user of the image instead of root
}

// manual has the documentation that the program generates.
type manual struct {
	pages       []file // NAME.1
	completions []file // headgate.bash, headgate.zsh, headgate.fish, headgate.ps1
}

// writeManual builds the program for this host and runs it to get its manual pages and shell completions.
func (r *release) writeManual(ctx context.Context, work string) (*manual, error) {
	host := &target{os: runtime.GOOS, arch: runtime.GOARCH}
	if err := r.compile(ctx, filepath.Join(work, "host"), host); err != nil {
		return nil, err
	}
	dir := filepath.Join(work, "man")
	if out, err := exec.CommandContext(ctx, host.binary, "man", "--dir", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("manual pages: %w: %s", err, out)
	}
	m := new(manual)
	paths, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m.pages = append(m.pages, file{name: filepath.Base(path), mode: 0o644, data: data})
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, err := exec.CommandContext(ctx, host.binary, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion for %s: %w", shell, err)
		}
		name := "headgate." + strings.ReplaceAll(shell, "powershell", "ps1")
		m.completions = append(m.completions, file{name: name, mode: 0o644, data: out})
	}
	return m, nil
}
