// Package contexts reads and writes the file of contexts. A context is a named rules service, which commands select by
// its name.
package contexts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
)

// A Target has the URL of a rules service and the settings for calls to it.
type Target struct {
	Server    string `yaml:"server" json:"server"`
	TokenFile string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	CAFile    string `yaml:"ca_file,omitempty" json:"ca_file,omitempty"`
}

// A File is the content of the file.
type File struct {
	Current  string            `yaml:"current,omitempty"` // name of the context that commands use by default
	Contexts map[string]Target `yaml:"contexts"`          // by name
}

// ErrNoPath means that no environment variable determines the path of the file.
var ErrNoPath = errors.New(
	"contexts: neither HOME nor XDG_CONFIG_HOME is set: set HEADGATE_CONTEXTS to the path of the contexts file")

// Path returns the path of the file: HEADGATE_CONTEXTS, or headgate/contexts.yaml in XDG_CONFIG_HOME or ~/.config.
func Path(getenv func(string) string) (string, error) {
	if path := getenv("HEADGATE_CONTEXTS"); path != "" {
		return path, nil
	}
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return "", ErrNoPath
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "headgate", "contexts.yaml"), nil
}

// Read reads the file. If the file does not exist, it returns a File without contexts.
func Read(path string) (File, error) {
	f := File{Contexts: map[string]Target{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("contexts: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return f, fmt.Errorf("contexts: %s: %w", path, err)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Target{}
	}
	return f, nil
}

// Write replaces the file atomically.
func (f *File) Write(path string) error {
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	if err := ReplaceFile(path, data, 0o600); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

// Names returns the names of the contexts, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Unknown returns the error for a context that does not exist.
func (f *File) Unknown(name string) error {
	return fmt.Errorf("there is no context %q: want one of %q", name, f.Names())
}

// ReplaceFile writes data to a file atomically.
func ReplaceFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".headgate-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
