// Package rulesfile reads, checks and tests rules files for the commands of headgate rules.
package rulesfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// Read reads a file, or stdin if name is "-".
func Read(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(stdin, source.MaxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return data, nil
}

// LoadAll reads and validates rules files, and returns one JSON document with all their rules and clients. A name may
// be a file, a directory of files, or "-" for stdin.
func LoadAll(names []string, stdin io.Reader) ([]byte, error) {
	if len(names) == 0 {
		return nil, errors.New("no file: want -f FILE, -f DIRECTORY or -f -")
	}
	var paths []string
	for _, name := range names {
		found, err := find(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	docs := make([]*file.Document, len(paths))
	// hasClients is set if any file has a list of clients, even an empty one. In a Document, an empty list is the same as
	// no list, so a file that may have a list is parsed again.
	hasClients := false
	for i, path := range paths {
		data, err := Read(path, stdin)
		if err != nil {
			return nil, err
		}
		if docs[i], err = file.Parse(path, data); err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("clients")) && !hasClients {
			parsed, err := source.Read(path, data)
			if err != nil {
				return nil, err
			}
			hasClients = parsed.Root != nil && parsed.Root.Field("clients") != nil
		}
	}
	if _, err := file.Compile(docs...); err != nil {
		return nil, err
	}
	merged := &file.Document{}
	for _, d := range docs {
		merged.Rules, merged.Clients = append(merged.Rules, d.Rules...), append(merged.Clients, d.Clients...)
	}
	if hasClients && len(merged.Clients) == 0 {
		return withEmptyClients(merged)
	}
	return merged.JSON(), nil
}

// withEmptyClients returns a document in JSON with an empty list of clients. Without the list, the rules service would
// not change registered clients.
func withEmptyClients(d *file.Document) ([]byte, error) {
	parsed, err := source.Read("rules.json", d.JSON())
	if err != nil {
		return nil, err
	}
	parsed.Root.Fields = append(parsed.Root.Fields, source.Field{Name: "clients", Value: &source.Node{Kind: source.List}})
	return source.JSON(parsed.Root), nil
}

// find returns the path of a file, or the sorted paths of all rules files in a directory and its subdirectories. In
// directories, it skips names that begin with a dot.
func find(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var found []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != name && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && isRulesFile(path):
			found = append(found, path)
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: no file that ends in .yaml, .yml or .json", name)
	}
	return found, err
}

func isRulesFile(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
}

// OpenClients opens a file with one client in JSON per line, or stdin if name is "-". It converts the clients of a
// rules file to such lines.
func OpenClients(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	if !isRulesFile(name) {
		return os.Open(name)
	}
	doc, err := file.Load(name)
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	for _, client := range doc.Clients {
		lines.Write(control.ClientBody(client))
		lines.WriteByte('\n')
	}
	return io.NopCloser(&lines), nil
}
