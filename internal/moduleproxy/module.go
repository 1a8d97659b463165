package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Version is the version with which the modules of the repository require each other in their go.mod files.
const Version = "v0.1.0"

// repository is the beginning of the path of every module in the repository.
const repository = "github.com/headgate/headgate"

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

// isNested reports whether a file belongs to another module in a directory of this one.
func (m Module) isNested(file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(m.Dir, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// Write writes the module below dir as the given version, in the layout that the go command reads from a GOPROXY. Its
// go.mod requires the other modules of the repository with the same version.
func (m Module) Write(dir, version string) error {
	versions := filepath.Join(dir, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	gomod, err := m.goMod(version)
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	files := map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": gomod}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(versions, name), data, 0o644); err != nil {
			return err
		}
	}
	return m.writeZip(filepath.Join(versions, version+".zip"), version, gomod)
}

func (m Module) goMod(version string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, repository) {
			line = strings.Replace(line, " "+Version, " "+version, 1)
		}
		out.WriteString(line)
	}
	return out.Bytes(), nil
}

func (m Module) writeZip(name, version string, gomod []byte) (err error) {
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
		entry, err := archive.Create(m.Path + "@" + version + "/" + f)
		if err != nil {
			return err
		}
		if f == "go.mod" {
			_, err = entry.Write(gomod)
		} else {
			err = m.copyFile(entry, f)
		}
		if err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

func (m Module) copyFile(to io.Writer, name string) error {
	file, err := os.Open(filepath.Join(m.Dir, name))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, file)
	return errors.Join(err, file.Close())
}
