package envoyrls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/headgate/headgate/internal/watch"
)

var errNoFiles = errors.New("no configuration: want a file that ends in .yaml, .yml or .json")

// load reads the configuration and puts it in force, unless it is the one in force.
func (s *Server) load() error {
	s.loading.Lock()
	defer s.loading.Unlock()
	texts, leftOut, err := readTexts(s.config.Path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if len(texts) == 0 {
		return fmt.Errorf("%s: %w", s.config.Path, errNoFiles)
	}
	if s.table.Load() != nil && slices.EqualFunc(texts, s.inForce, text.equal) {
		s.last = ""
		return nil
	}
	docs, err := parseTexts(texts)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	t, err := compile(docs, s.config.MergeDomains)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	t.inherit(s.table.Load())
	s.table.Store(t)
	s.detailed.clear()
	s.counts.loads.Add(1)
	s.last, s.inForce = "", texts
	s.config.Logger.Info("rate limit configuration loaded", "path", s.config.Path, "domains", len(t.domains), "limits", len(t.limits))
	s.logLeftOut(leftOut)
	return nil
}

// maxLeftOut is how many files left out of a directory are named in the log.
const maxLeftOut = 3

// logLeftOut logs the files of the directory that are not part of the configuration. A limit in such a file does not apply.
func (s *Server) logLeftOut(names []string) {
	if len(names) == 0 {
		return
	}
	s.config.Logger.Warn("files left out of the rate limit configuration: they do not end in .yaml, .yml or .json, or begin with a dot, "+
		"or are directories", "path", s.config.Path, "count", len(names), "files", names[:min(len(names), maxLeftOut)])
}

func (t text) equal(other text) bool { return t.name == other.name && bytes.Equal(t.data, other.data) }

// refuse tells that a configuration is wrong, once for each thing that is.
func (s *Server) refuse(err error) {
	s.counts.loadsRefused.Add(1)
	s.loading.Lock()
	defer s.loading.Unlock()
	if text := err.Error(); text != s.last {
		s.last = text
		s.config.Logger.Error("rate limit configuration refused, the one in force stays", "path", s.config.Path, "err", text)
	}
}

// Reload reads the configuration again. If it is wrong, or gone, the one in force stays and the error says why.
func (s *Server) Reload() error {
	if s.config.Path == "" {
		return nil
	}
	if err := s.load(); err != nil {
		s.refuse(err)
		return err
	}
	s.health()
	return nil
}

// Watch reloads the configuration when it changes, until ctx ends. It returns at once if there is none to watch.
func (s *Server) Watch(ctx context.Context) error {
	if s.config.Path == "" {
		return nil
	}
	look := watch.File
	if info, err := os.Stat(s.config.Path); err != nil || info.IsDir() {
		look = watch.Dir
	}
	return look(ctx, s.config.Path, watch.Options{Logger: s.config.Logger}, func() { _ = s.Reload() }) // it has told the log
}

// Healthy tells whether requests are answered: there is a configuration, or there are rules, and Drain was not called.
func (s *Server) Healthy() bool { return s.healthy.Load() }

// Drain says that the program is about to end: health checks fail, and requests are still answered.
func (s *Server) Drain() {
	s.loading.Lock()
	s.drained = true
	s.loading.Unlock()
	s.health()
}

// health finds out how the server is and tells of a change.
func (s *Server) health() {
	s.loading.Lock()
	defer s.loading.Unlock()
	healthy := !s.drained && (s.config.Path == "" || s.table.Load() != nil)
	if s.healthy.Swap(healthy) != healthy {
		s.config.OnHealth(healthy)
	}
}
