package main

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newTestRelease writes a release whose program is a small script.
func newTestRelease(t *testing.T, keyFile string) *release {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{
		root: root, out: t.TempDir(), version: "v1.2.3-rc.1", commit: "0123456789abcdef",
		date: time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC), log: t.Logf,
	}
	m := &manual{
		pages:       []file{{name: "headgate.1", mode: 0o644, data: []byte(".TH HEADGATE 1\n")}},
		completions: []file{{name: "headgate.bash", mode: 0o644, data: []byte("complete headgate\n")}},
	}
	targets := []*target{{os: "linux", arch: "amd64"}, {os: "linux", arch: "arm64"}, {os: "darwin", arch: "arm64"}, {os: "windows", arch: "amd64"}}
	for _, target := range targets {
		target.binary = program // the bill of materials reads its build information
		if err := r.writeBOM(target); err != nil {
			t.Fatal(err)
		}
		target.binary = filepath.Join(t.TempDir(), "headgate")
		if err := os.WriteFile(target.binary, []byte("#!/bin/sh\necho headgate\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		steps := []func() error{func() error { return r.writeArchive(target, m) }}
		if target.os == "linux" {
			steps = append(steps, func() error { return r.writePackages(target, m) })
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, err := range []error{r.writeImage(targets), r.writeFormula(targets), r.writeSums(), r.sign(keyFile)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *release) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTwoReleasesAreIdentical(t *testing.T) {
	first, second := newTestRelease(t, ""), newTestRelease(t, "")
	entries, err := os.ReadDir(first.out)
	if err != nil {
		t.Fatal(err)
	}
	const want = 4*2 + 2*3 + 1 + 1 + 2 // archives and bills, packages, image, formula, sums and note
	if len(entries) != want {
		t.Errorf("got %d files, want %d: %v", len(entries), want, entries)
	}
	for _, e := range entries {
		if !bytes.Equal(first.read(t, e.Name()), second.read(t, e.Name())) {
			t.Errorf("%s differs between two runs", e.Name())
		}
	}
}

// The Alpine package contains the times of its scripts, which must not be those of the checkout.
func TestScriptsHaveTheTimeOfTheCommit(t *testing.T) {
	r := &release{root: "../..", date: time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)}
	staged := t.TempDir()
	if err := r.stageScripts(staged); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{postInstall, preRemove, postRemove} {
		info, err := os.Stat(filepath.Join(staged, name))
		if err != nil {
			t.Fatal(err)
		}
		if !info.ModTime().Equal(r.date) {
			t.Errorf("%s: got %v, want %v", name, info.ModTime(), r.date)
		}
	}
}

func TestChecksumsAreSigned(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newTestRelease(t, key)
	if !ed25519.Verify(public, r.read(t, sumsFile), r.read(t, signatureFile)) {
		t.Error("got an invalid signature, want a valid one")
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", sumsFile)
	check.Dir = r.out
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum --check: %v: %s", err, out)
	}
}

func TestSnapshotSaysThatItIsUnsigned(t *testing.T) {
	r := newTestRelease(t, "")
	if text := r.read(t, unsignedFile); !bytes.Contains(text, []byte("without a signature")) {
		t.Errorf("got %q, want it to say so", text)
	}
	if err := r.sign(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("got no error for a missing key, want one")
	}
}

func TestImageRunsWithoutRights(t *testing.T) {
	r := newTestRelease(t, "")
	blobs := make(map[string][]byte)
	for archive := tar.NewReader(bytes.NewReader(r.read(t, "headgate_1.2.3-rc.1_image.oci.tar"))); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if blobs[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	decode := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(blobs[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }
	var top, index manifest
	decode("index.json", &top)
	decode(blob(top.Manifests[0]), &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("got %d platforms, want 2", len(index.Manifests))
	}
	for _, d := range index.Manifests {
		var m manifest
		var c imageConfig
		decode(blob(d), &m)
		decode(blob(*m.Config), &c)
		if c.Config.User != "65532:65532" || c.OS != "linux" || c.Architecture != d.Platform.Architecture {
			t.Errorf("got %+v, want the user 65532 and the platform %+v", c, d.Platform)
		}
		if len(blobs[blob(m.Layers[0])]) != m.Layers[0].Size {
			t.Errorf("got a layer of %d bytes, want %d", len(blobs[blob(m.Layers[0])]), m.Layers[0].Size)
		}
	}
}

func TestBillOfMaterialsListsModules(t *testing.T) {
	var b bom
	if err := json.Unmarshal(newTestRelease(t, "").read(t, "headgate_1.2.3-rc.1_linux_amd64.cdx.json"), &b); err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Components {
		if c.Name == "github.com/goreleaser/nfpm/v2" && strings.HasPrefix(c.PURL, "pkg:golang/github.com/goreleaser/nfpm/v2@v2.") {
			return
		}
	}
	t.Errorf("got %d components without nfpm, want it, because this test contains it", len(b.Components))
}

func TestFormulaHasTheSumsOfTheArchives(t *testing.T) {
	r := newTestRelease(t, "")
	text := string(r.read(t, "headgate.rb"))
	for _, archive := range []string{"headgate_1.2.3-rc.1_darwin_arm64.tar.gz", "headgate_1.2.3-rc.1_linux_amd64.tar.gz"} {
		sum, err := r.sum(archive)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, archive+"\"\n      sha256 \""+sum) {
			t.Errorf("got %s\nwant %s with %s", text, archive, sum)
		}
	}
}

func TestPackagesHaveTheUnitAndAConfiguration(t *testing.T) {
	r := newTestRelease(t, "")
	out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--contents", filepath.Join(r.out, "headgate_1.2.3-rc.1_linux_amd64.deb")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-rwxr-xr-x root/root", "./usr/bin/headgate", "./lib/systemd/system/headgate.service",
		"./usr/share/man/man1/headgate.1.gz", "./usr/share/bash-completion/completions/headgate",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("got %s\nwant %s", out, want)
		}
	}
	out, err = exec.CommandContext(t.Context(), "dpkg-deb", "--field", filepath.Join(r.out, "headgate_1.2.3-rc.1_linux_amd64.deb"), "Version").Output()
	if err != nil || string(out) != "1.2.3~rc.1\n" {
		t.Errorf("got version %q and error %v, want 1.2.3~rc.1, which sorts before 1.2.3", out, err)
	}
}
