package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// A Monitor wraps a DB. It remembers whether the last write succeeded, and logs when writes start to fail or to succeed
// again. Heartbeats of nodes are writes, so it notices within seconds even if nobody edits rules. It is safe for
// concurrent use.
type Monitor struct {
	DB
	log *slog.Logger

	mu  sync.Mutex
	err error // why writes fail; nil if they succeed
}

var _ DB = (*Monitor)(nil)

// NewMonitor returns a Monitor of a database. It assumes that writes succeed.
func NewMonitor(db DB, log *slog.Logger) *Monitor { return &Monitor{DB: db, log: log} }

// Writable returns why writes fail: the error of the database's own Writable or, if that is nil, the error of the last
// write.
func (m *Monitor) Writable(ctx context.Context) error {
	err := m.DB.Writable(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	// DB.Writable looks for the file itself, so its nil ends ErrFileGone. Other errors of writes end at the next write.
	if err != nil || errors.Is(m.err, ErrFileGone) {
		m.setErr(err)
	}
	return m.err
}

// recordWrite records the result of a write, and returns it. Errors that do not show whether the database can be
// written, such as conflicts, leave the state unchanged.
func (m *Monitor) recordWrite(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || errors.Is(err, ErrUnwritable) || errors.Is(err, ErrFull) {
		m.setErr(err)
	}
	return err
}

// setErr sets the state, and logs it if it has changed. The caller holds mu.
func (m *Monitor) setErr(err error) {
	previous := m.err
	m.err = err
	switch {
	case err == nil && previous != nil:
		m.log.Info("the database can be written again", "db", m.Name())
	case err != nil && (previous == nil || !errors.Is(previous, errorKind(err))):
		m.log.Error("the database cannot be written: changes of rules are refused, decisions go on", "db", m.Name(),
			"err", err.Error(), "todo", Remedy(err))
	}
}

// errorKind returns the kind of an error. Different errors of one kind are logged only once.
func errorKind(err error) error {
	for _, kind := range []error{ErrFileGone, ErrUnwritable, ErrFull} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Remedy returns advice for an operator about ErrFileGone, ErrUnwritable or ErrFull: an imperative sentence in lower
// case, without a full stop.
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
func (m *Monitor) Commit(ctx context.Context, c *Change) error {
	return m.recordWrite(m.DB.Commit(ctx, c))
}

// PutState stores a state.
func (m *Monitor) PutState(ctx context.Context, s State) error {
	return m.recordWrite(m.DB.PutState(ctx, s))
}

// DeleteState deletes a state.
func (m *Monitor) DeleteState(ctx context.Context, bucket, id string) error {
	return m.recordWrite(m.DB.DeleteState(ctx, bucket, id))
}

// Prune deletes changes before a time.
func (m *Monitor) Prune(ctx context.Context, before time.Time) (int, error) {
	count, err := m.DB.Prune(ctx, before)
	return count, m.recordWrite(err)
}

// Restore replaces all content by a backup.
func (m *Monitor) Restore(ctx context.Context, r io.Reader, base int64) error {
	return m.recordWrite(m.DB.Restore(ctx, r, base))
}
