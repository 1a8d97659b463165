package node

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/headgate/headgate/control/api"
	"github.com/headgate/headgate/internal/watch"
)

// mirrorTimeout is how long a database may take to become what a file says.
const mirrorTimeout = time.Minute

// fileActor is who the history names for changes that come from a file.
const fileActor = "file"

// A mirror makes a database what a rules file says.
type mirror struct {
	server    *api.Server
	namespace string
	path      string
	log       *slog.Logger

	loading sync.Mutex // held by who reads the file

	mu  sync.Mutex
	bad string // what is wrong with the file
}

// load makes the database what the file says.
func (m *mirror) load(ctx context.Context) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	data, err := os.ReadFile(m.path)
	if err == nil {
		_, err = m.server.Apply(ctx, m.namespace, fileActor, m.path, data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.bad = ""
		return nil
	}
	if text := err.Error(); text != m.bad { // the log is not filled with one
		m.bad = text
		m.log.Error("rules refused, those in the database stay", "file", m.path, "err", text)
	}
	return err
}

func (m *mirror) reload() { _ = m.load(context.Background()) } // it has told the log

// wrong says what is wrong with the file.
func (m *mirror) wrong() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bad
}

// watch follows the file until ctx ends.
func (m *mirror) watch(ctx context.Context) {
	err := watch.File(ctx, m.path, watch.Options{Logger: m.log}, func() { _ = m.load(ctx) }) // it has told the log
	if err != nil {
		m.log.Error("the rules file is not watched", "file", m.path, "err", err.Error())
	}
}
