package main

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Version is the version that every module of the repository has, and by which they require each other.
const Version = "v0.1.0"

// A Module is one module of the repository.
type Module struct {
	Path  string // as in its go.mod
	Dir   string
	Files []string // relative to Dir; the files that git tracks or would track
}

// Modules returns the modules that go.work names.
func Modules(root string) ([]Module, error) {
	out, err := exec.Command("go", "work", "edit", "-json", filepath.Join(root, "go.work")).Output()
	if err != nil {
		return nil, fmt.Errorf("reading go.work: %w", err)
	}
	var work struct {
		Use []struct{ DiskPath string }
	}
	if err := json.Unmarshal(out, &work); err != nil {
		return nil, err
	}
	var modules []Module
	for _, use := range work.Use {
		m, err := newModule(filepath.Join(root, use.DiskPath))
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	return modules, nil
}

func newModule(dir string) (Module, error) {
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return Module{}, err
	}
	first, _, _ := strings.Cut(string(gomod), "\n")
	name, ok := strings.CutPrefix(strings.TrimSpace(first), "module ")
	if !ok {
		return Module{}, fmt.Errorf("%s/go.mod does not begin with its module line", dir)
	}
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return Module{}, fmt.Errorf("listing the files of %s: %w", dir, err)
	}
	m := Module{Path: name, Dir: dir}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSuffix(file, "\n")
		if info, err := os.Lstat(filepath.Join(dir, file)); err == nil && info.Mode().IsRegular() && !m.isNested(file) {
			m.Files = append(m.Files, file)
		}
	}
	return m, nil
}

// isNested reports whether a file belongs to another module below this one.
func (m Module) isNested(file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(m.Dir, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// Write writes the module below dir, in the layout that the go command reads from a GOPROXY.
func (m Module) Write(dir string) error {
	versions := filepath.Join(dir, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	gomod, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": Version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(Version + "\n"), Version + ".info": info, Version + ".mod": gomod} {
		if err := os.WriteFile(filepath.Join(versions, name), data, 0o644); err != nil {
			return err
		}
	}
	return m.writeZip(filepath.Join(versions, Version+".zip"))
}

func (m Module) writeZip(name string) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	buffered := bufio.NewWriter(file)
	archive := zip.NewWriter(buffered)
	for _, f := range m.Files {
		if err := m.addFile(archive, f); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

func (m Module) addFile(archive *zip.Writer, name string) error {
	source, err := os.DirFS(m.Dir).Open(name)
	if err != nil {
		return err
	}
	defer func(f fs.File) { _ = f.Close() }(source) // it was only read
	entry, err := archive.Create(m.Path + "@" + Version + "/" + name)
	if err != nil {
		return err
	}
	_, err = io.Copy(entry, source)
	return err
}
