// Command release builds all files of a release into a directory: archives for all platforms, Debian, RPM and Alpine
// packages, a container image, a Homebrew formula, bills of materials, and checksums with a signature.
//
//	GOWORK=off go run -C tools/release . --out ../../dist
//
// Two runs from the same commit write the same bytes. HEADGATE_SIGNING_KEY is the path of a PEM file with an Ed25519
// private key. Without it, the release is not signed and contains a file that says so.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A release has the properties that all files of the release share.
type release struct {
	root    string // directory of the repository
	out     string // directory to write to
	version string // such as v1.2.3
	commit  string
	date    time.Time // time of the commit, or of SOURCE_DATE_EPOCH
	log     func(format string, args ...any)
}

// A target is a platform, and the files made for it.
type target struct {
	os, arch string
	binary   string // path of the program
	archive  string // name of the archive
}

func (t *target) String() string { return t.os + "_" + t.arch }

const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	out := flag.String("out", "../../dist", "directory to write to; its files are deleted first")
	version := flag.String("version", "", "version such as v1.2.3; default a snapshot version with the commit")
	platforms := flag.String("targets", allTargets, "platforms to build for")
	root := flag.String("root", "../..", "root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *root, *out, *version, *platforms)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out, version, platforms string) error {
	start := time.Now()
	r, err := newRelease(ctx, root, out, version)
	if err != nil {
		return err
	}
	r.log = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	targets, err := parseTargets(platforms)
	if err != nil {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "headgate-release-")
	if err != nil {
		return err
	}
	err = r.build(ctx, work, targets)
	return errors.Join(err, os.RemoveAll(work))
}

// newRelease returns a release of the current commit. Without a version, it is a snapshot.
func newRelease(ctx context.Context, root, out, version string) (*release, error) {
	r := &release{version: version}
	var err error
	if r.root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	info, err := r.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	commit, stamp, _ := strings.Cut(info, " ")
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), stamp), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("date of the commit: %w", err)
	}
	r.commit, r.date = commit, time.Unix(seconds, 0).UTC()
	if r.version == "" {
		r.version = "v0.1.0-snapshot." + r.date.Format("20060102150405")
	}
	if !strings.HasPrefix(r.version, "v") {
		return nil, fmt.Errorf("--version %s: want a version such as v1.2.3", r.version)
	}
	return r, nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = r.root
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func parseTargets(text string) (list []*target, err error) {
	for platform := range strings.SplitSeq(text, ",") {
		system, arch, ok := strings.Cut(platform, "/")
		if !ok || !strings.Contains(allTargets, platform) {
			return nil, fmt.Errorf("--targets %s: want some of %s", platform, allTargets)
		}
		list = append(list, &target{os: system, arch: arch})
	}
	return list, nil
}

// prepare empties the output directory. It returns an error if the directory has files that are not part of a release.
func (r *release) prepare() error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); !strings.Contains(name, "headgate") &&
			name != sumsFile && name != signatureFile && name != unsignedFile {
			return fmt.Errorf("%s contains %s, which is not part of a release: want another --out", r.out, e.Name())
		}
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.MkdirAll(r.out, 0o755)
}

// build writes all files of the release.
func (r *release) build(ctx context.Context, work string, targets []*target) error {
	r.log("headgate %s from %.12s", r.version, r.commit)
	for _, t := range targets {
		if err := r.compile(ctx, work, t); err != nil {
			return err
		}
	}
	manual, err := r.writeManual(ctx, work)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := r.writeBOM(t); err != nil {
			return err
		}
		if err := r.writeArchive(t, manual); err != nil {
			return err
		}
		if t.os == "linux" {
			if err := r.writePackages(t, manual); err != nil {
				return err
			}
		}
		r.log("%s: archive, bill of materials, packages", t)
	}
	if err := r.writeImage(targets); err != nil {
		return err
	}
	if err := r.writeFormula(targets); err != nil {
		return err
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	return r.sign(os.Getenv("HEADGATE_SIGNING_KEY"))
}

// number returns the version without the v.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }
