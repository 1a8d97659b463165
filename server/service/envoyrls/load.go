package envoyrls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/headgate/headgate/server/internal/watch"
)

var errNoFiles = errors.New("no configuration: want a file with the extension .yaml, .yml or .json")

// load reads the configuration, and uses it if it has changed.
func (s *Server) load() error {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	files, ignored, err := readFiles(s.config.Path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: %w", s.config.Path, errNoFiles)
	}
	if s.table.Load() != nil && slices.EqualFunc(files, s.loadedFiles, sourceFile.equal) {
		s.lastError = ""
		s.logIgnored(ignored)
		return nil
	}
	docs, err := parseFiles(files)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	t, err := compile(docs, s.config.MergeDomains)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	t.keepCounters(s.table.Load())
	s.table.Store(t)
	s.detailed.clear()
	s.counts.loads.Add(1)
	s.lastError, s.loadedFiles = "", files
	s.config.Logger.Info("rate limit configuration loaded",
		"path", s.config.Path, "domains", len(t.domains), "limits", len(t.limits))
	s.logIgnored(ignored)
	return nil
}

// maxIgnoredBytes is the maximum total length of the names of ignored files in a log line.
const maxIgnoredBytes = 600

// logIgnored logs the files in the directory that are not part of the configuration, if they have changed. Operators
// may expect that limits in these files apply.
func (s *Server) logIgnored(names []string) {
	changed := !slices.Equal(names, s.ignoredFiles)
	s.ignoredFiles = names
	if len(names) == 0 || !changed {
		return
	}
	s.config.Logger.Warn("files ignored in the rate limit configuration: "+
		"not .yaml, .yml or .json, or names that begin with a dot, or directories, pipes and devices",
		"path", s.config.Path, "count", len(names), "files", namesWithin(names, maxIgnoredBytes))
}

// namesWithin returns the first names, up to a total length of maxBytes.
func namesWithin(names []string, maxBytes int) []string {
	for i, name := range names {
		if maxBytes -= len(name); maxBytes < 0 {
			return names[:i]
		}
	}
	return names
}

func (f sourceFile) equal(other sourceFile) bool {
	return f.name == other.name && bytes.Equal(f.data, other.data)
}

// refuse counts and logs an invalid configuration. It does not log the same error twice in a row.
func (s *Server) refuse(err error) {
	s.counts.loadsRefused.Add(1)
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	if text := err.Error(); text != s.lastError {
		s.lastError = text
		s.config.Logger.Error("rate limit configuration refused, the previous one stays in use",
			"path", s.config.Path, "err", text)
	}
}

// Reload reads the configuration again. If it is missing or invalid, Reload returns an error, and the previous
// configuration stays in use.
func (s *Server) Reload() error {
	if s.config.Path == "" {
		return nil
	}
	if err := s.load(); err != nil {
		s.refuse(err)
		return err
	}
	s.updateHealth()
	return nil
}

// Watch reloads the configuration when it changes, until ctx ends. Without a Path it returns immediately.
func (s *Server) Watch(ctx context.Context) error {
	if s.config.Path == "" {
		return nil
	}
	watchPath := watch.File
	if info, err := os.Stat(s.config.Path); err != nil || info.IsDir() {
		watchPath = watch.Dir
	}
	return watchPath(ctx, s.config.Path, watch.Options{Logger: s.config.Logger}, func() { _ = s.Reload() })
}

// Healthy reports whether there is a configuration or an engine, and Drain was not called.
func (s *Server) Healthy() bool { return s.healthy.Load() }

// Drain announces the end of the program. From then on, health checks fail, but requests are still served.
func (s *Server) Drain() {
	s.loadMu.Lock()
	s.drained = true
	s.loadMu.Unlock()
	s.updateHealth()
}

// updateHealth updates Healthy and reports a change to OnHealth.
func (s *Server) updateHealth() {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	healthy := !s.drained && (s.config.Path == "" || s.table.Load() != nil)
	if s.healthy.Swap(healthy) != healthy {
		s.config.OnHealth(healthy)
	}
}
