package node

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/internal/watch"
)

// mirrorTimeout is the timeout of a copy of the file to the database.
const mirrorTimeout = time.Minute

// fileActor is the actor of changes from a file in the history.
const fileActor = "file"

// A fileMirror copies the rules of a file to a database.
type fileMirror struct {
	server    *api.Server
	namespace string
	path      string
	log       *slog.Logger

	loadMu sync.Mutex // serializes load

	mu      sync.Mutex
	lastErr string // the error of the last load, empty if it succeeded
}

// load replaces the rules in the database with the rules in the file.
func (m *fileMirror) load(ctx context.Context) error {
	m.loadMu.Lock()
	defer m.loadMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	data, err := os.ReadFile(m.path)
	if err == nil {
		_, err = m.server.Apply(ctx, m.namespace, fileActor, m.path, data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.lastErr = ""
		return nil
	}
	if text := err.Error(); text != m.lastErr { // log an error only when it differs from the last one
		m.lastErr = text
		m.log.Error("rules refused, keeping the rules in the database", "file", m.path, "err", text)
	}
	return err
}

func (m *fileMirror) reload() { _ = m.load(context.Background()) } // load logs its error

// lastError returns the error of the last load, or "" if it succeeded.
func (m *fileMirror) lastError() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastErr
}

// watch loads the file whenever it changes, until ctx ends.
func (m *fileMirror) watch(ctx context.Context) {
	err := watch.File(ctx, m.path, watch.Options{Logger: m.log}, func() { _ = m.load(ctx) }) // load logs its error
	if err != nil {
		m.log.Error("rules file not watched", "file", m.path, "err", err.Error())
	}
}
