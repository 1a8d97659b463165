package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// A Monitor is a DB that knows whether writes succeed, and logs when that changes. It is safe for concurrent use. Heartbeats of
// nodes are writes, so that it knows within seconds also when nobody edits rules.
type Monitor struct {
	DB
	log *slog.Logger

	mu  sync.Mutex
	err error
}

var _ DB = (*Monitor)(nil)

// NewMonitor returns a Monitor of db, which has not failed yet.
func NewMonitor(db DB, log *slog.Logger) *Monitor { return &Monitor{DB: db, log: log} }

// Writable returns why writes fail: what the database says now or, if it has nothing to say, what the last write said.
func (m *Monitor) Writable(ctx context.Context) error {
	err := m.DB.Writable(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || errors.Is(m.err, ErrFileGone) { // a file that is back needs no write to be known
		m.set(err)
	}
	return m.err
}

// wrote notes how a write ended, and returns err. Errors that are about the change rather than the database do not count.
func (m *Monitor) wrote(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || errors.Is(err, ErrUnwritable) || errors.Is(err, ErrFull) {
		m.set(err)
	}
	return err
}

// set takes over a state, and logs it if it is another. The caller holds mu.
func (m *Monitor) set(err error) {
	was := m.err
	m.err = err
	switch {
	case err == nil && was != nil:
		m.log.Info("the database can be written again", "db", m.Name())
	case err != nil && (was == nil || !errors.Is(was, stateOf(err))):
		m.log.Error("the database cannot be written: changes of rules are refused, decisions go on", "db", m.Name(),
			"err", err.Error(), "todo", Remedy(err))
	}
}

// stateOf returns the kind of an error, so that the same state in other words is logged once.
func stateOf(err error) error {
	for _, kind := range []error{ErrFileGone, ErrUnwritable, ErrFull} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Remedy returns what an operator can do about an ErrFileGone, ErrUnwritable or ErrFull: a sentence without its full stop.
func Remedy(err error) string {
	switch {
	case errors.Is(err, ErrFileGone):
		return "save what is still open with \"headgate backup\", put the file back or restart, and restore the backup if needed"
	case errors.Is(err, ErrFull):
		return "make room on its disk"
	default:
		return "make its disk or server writable"
	}
}

// Commit applies a change.
func (m *Monitor) Commit(ctx context.Context, c *Change) error { return m.wrote(m.DB.Commit(ctx, c)) }

// PutState keeps a state.
func (m *Monitor) PutState(ctx context.Context, s State) error { return m.wrote(m.DB.PutState(ctx, s)) }

// DeleteState forgets a state.
func (m *Monitor) DeleteState(ctx context.Context, bucket, id string) error {
	return m.wrote(m.DB.DeleteState(ctx, bucket, id))
}

// Prune forgets changes before a time.
func (m *Monitor) Prune(ctx context.Context, before time.Time) (int, error) {
	count, err := m.DB.Prune(ctx, before)
	return count, m.wrote(err)
}

// Restore takes what Dump wrote in place of all that there is.
func (m *Monitor) Restore(ctx context.Context, r io.Reader, over int64) error {
	return m.wrote(m.DB.Restore(ctx, r, over))
}
