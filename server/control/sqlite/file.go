package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/headgate/headgate/server/control"
)

// A file identifies the open database file. If the file is removed or replaced, SQLite continues to write to the old
// one, and all these writes are lost when the process ends.
type file struct {
	path string
	info fs.FileInfo // nil until it is opened
	// hasWAL reports whether there is a write-ahead log. There is none on file systems without shared memory.
	hasWAL bool
}

// identify records which file is open. A connection for writes must be open, because SQLite removes the write-ahead log
// when the last one is closed.
func (f *file) identify() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	switch _, err := os.Stat(f.path + "-wal"); {
	case err == nil:
		f.hasWAL = true
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f.info = info
	return nil
}

// check returns control.ErrFileGone if the path no longer leads to the open file, or if its write-ahead log is missing.
// It must be called within a transaction, because only then the log must exist.
func (f *file) check() error {
	if err := f.checkPath(); err != nil || !f.hasWAL {
		return err
	}
	if _, err := os.Stat(f.path + "-wal"); err != nil {
		return fmt.Errorf("%w: %w", control.ErrFileGone, err)
	}
	return nil
}

// checkPath returns control.ErrFileGone if the path no longer leads to the open file. It must not open the file,
// because closing it would release SQLite's locks.
func (f *file) checkPath() error {
	if f.info == nil {
		return nil
	}
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("%w: %w", control.ErrFileGone, err)
	}
	if !os.SameFile(info, f.info) {
		return fmt.Errorf("%w: %s is another file now", control.ErrFileGone, f.path)
	}
	return nil
}

// A connector opens connections to a database file. It refuses to open a file that has replaced it.
type connector struct {
	file *file
	dsn  string
}

var _ driver.Connector = (*connector)(nil)

// Connect opens a connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.file.checkPath(); err != nil {
		return nil, err
	}
	conn, err := c.open(ctx)
	if err == nil {
		err = c.file.checkPath()
	}
	if err != nil && conn != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, err
}

// busyRetry is the pause between two attempts to open a connection.
const busyRetry = 10 * time.Millisecond

// open opens a connection, and retries for up to busyTimeout while the file is locked. SQLite itself does not wait when
// it turns on the write-ahead log, so opening fails if another process does the same at that moment.
func (c *connector) open(ctx context.Context) (driver.Conn, error) {
	for deadline := time.Now().Add(busyTimeout); ; {
		conn, err := c.Driver().Open(c.dsn)
		var e *sqlite.Error
		if !errors.As(err, &e) || e.Code()&0xff != lib.SQLITE_BUSY || time.Now().After(deadline) {
			return conn, err
		}
		select {
		case <-time.After(busyRetry):
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// Driver returns the driver of SQLite.
func (c *connector) Driver() driver.Driver { return &sqlite.Driver{} }

// connectReaders opens all connections for reads now, so that reads still work if the file is removed later.
func (db *DB) connectReaders(ctx context.Context) error {
	conns := make([]*sql.Conn, 0, readers)
	var err error
	for range readers {
		var conn *sql.Conn
		if conn, err = db.Read.Conn(ctx); err != nil {
			break
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		err = errors.Join(err, conn.Close()) // back to the pool
	}
	return err
}
