// Command moduleproxy writes the modules of this repository into a directory, in the layout of a Go module proxy:
//
//	go run ./internal/moduleproxy DIR
//
// With GOPROXY=file://DIR the go command then downloads them as it would from a release. Every module has the version
// by which the others require it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: moduleproxy DIR\n\nWrites the modules of go.work into DIR, for GOPROXY=file://DIR.")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "moduleproxy:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	modules, err := Modules(root)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := m.Write(dir, Version); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// findRoot returns the nearest directory at or above the working directory that has a go.work file.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.work in the working directory or above it")
		}
		dir = parent
	}
}
