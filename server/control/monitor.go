package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// A Monitor is a DB that knows whether writes succeed, and logs when that changes. Heartbeats of nodes are writes, so
// it knows within seconds even if nobody edits rules. It is safe for concurrent use.
type Monitor struct {
	DB
	log *slog.Logger

	mu  sync.Mutex
	err error
}

var _ DB = (*Monitor)(nil)

// NewMonitor returns a Monitor of a database. It assumes that writes succeed.
func NewMonitor(db DB, log *slog.Logger) *Monitor { return &Monitor{DB: db, log: log} }

// Writable returns why writes fail: the error of the database or, if it has none, that of the last write.
func (m *Monitor) Writable(ctx context.Context) error {
	err := m.DB.Writable(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || errors.Is(m.err, ErrFileGone) { // a restored file is found without a write
		m.set(err)
	}
	return m.err
}

// wrote records the result of a write, and returns err. Errors of the change rather than the database do not count.
func (m *Monitor) wrote(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || errors.Is(err, ErrUnwritable) || errors.Is(err, ErrFull) {
		m.set(err)
	}
	return err
}

// set sets the state, and logs it if it has changed. The caller holds mu.
func (m *Monitor) set(err error) {
	before := m.err
	m.err = err
	switch {
	case err == nil && before != nil:
		m.log.Info("the database can be written again", "db", m.Name())
	case err != nil && (before == nil || !errors.Is(before, stateOf(err))):
		m.log.Error("the database cannot be written: changes of rules are refused, decisions go on", "db", m.Name(),
			"err", err.Error(), "todo", Remedy(err))
	}
}

// stateOf returns the kind of an error. Different errors of one kind are logged once.
func stateOf(err error) error {
	for _, kind := range []error{ErrFileGone, ErrUnwritable, ErrFull} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Remedy returns what an operator can do about an ErrFileGone, ErrUnwritable or ErrFull: a sentence without a full
// stop.
func Remedy(err error) string {
	switch {
	case errors.Is(err, ErrFileGone):
		return "save what is still open with \"headgate backup\", put the file back or restart, " +
			"and restore the backup if needed"
	case errors.Is(err, ErrFull):
		return "free space on its disk"
	default:
		return "make its disk or server writable"
	}
}

// Commit commits a change.
func (m *Monitor) Commit(ctx context.Context, c *Change) error { return m.wrote(m.DB.Commit(ctx, c)) }

// PutState stores a state.
func (m *Monitor) PutState(ctx context.Context, s State) error { return m.wrote(m.DB.PutState(ctx, s)) }

// DeleteState deletes a state.
func (m *Monitor) DeleteState(ctx context.Context, bucket, id string) error {
	return m.wrote(m.DB.DeleteState(ctx, bucket, id))
}

// Prune deletes changes before a time.
func (m *Monitor) Prune(ctx context.Context, before time.Time) (int, error) {
	count, err := m.DB.Prune(ctx, before)
	return count, m.wrote(err)
}

// Restore replaces all content by a backup.
func (m *Monitor) Restore(ctx context.Context, r io.Reader, base int64) error {
	return m.wrote(m.DB.Restore(ctx, r, base))
}
