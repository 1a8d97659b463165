//go:build linux

package main

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed testdata/install.sh
var installScript []byte

// TestPackageInstallsRunsUpgradesAndIsRemoved installs the Debian package for real, on a copy of this system that is
// thrown away: an overlay file system in a mount and network namespace. It needs root, and HEADGATE_RELEASE_TEST, because
// it builds the program.
func TestPackageInstallsRunsUpgradesAndIsRemoved(t *testing.T) {
	if os.Getenv("HEADGATE_RELEASE_TEST") == "" {
		t.Skip("set HEADGATE_RELEASE_TEST=1, as make release-test does")
	}
	dir := t.TempDir()
	var packages []string
	for _, version := range []string{"v0.1.0", "v0.2.0"} {
		r, err := newRelease(t.Context(), "../..", filepath.Join(dir, version), version)
		if err != nil {
			t.Fatal(err)
		}
		r.log = t.Logf
		host := &target{os: "linux", arch: runtime.GOARCH}
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		if err := r.compile(t.Context(), filepath.Join(dir, "work"), host); err != nil {
			t.Fatal(err)
		}
		m, err := r.writeManual(t.Context(), filepath.Join(dir, "work"))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.writePackages(host, m); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, filepath.Join(r.out, "headgate_"+r.number()+"_"+host.String()+".deb"))
	}
	script := filepath.Join(dir, "install.sh")
	if err := os.WriteFile(script, installScript, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--net", "--pid", "--fork", "--kill-child", "bash", script}, packages...)...)
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("install.sh: %v", err)
	}
}
