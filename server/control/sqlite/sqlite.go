package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/notify"
)

const (
	// readers is the number of connections for reads. Snapshots and backups use one of them for a long time.
	readers = 8
	// patience is how long a write waits for a write of another process.
	patience = 10 * time.Second
	// poll is the interval in which a watch looks for changes of other processes.
	poll = 100 * time.Millisecond
)

// A DB is a database file. It is safe for concurrent use.
type DB struct {
	path    string
	file    file
	write   *sql.DB // one connection: SQLite has one writer
	read    *sql.DB
	changes notify.Notifier
}

var _ control.DB = (*DB)(nil)

// Open opens a database file. If it does not exist, Open creates it and its directory, readable only by this user. It
// migrates the file of an older version. For a newer version the error is control.ErrNewer.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("open the rules in %s: %w", path, err)
	}
	db := &DB{path: path, file: file{path: path}}
	db.write = sql.OpenDB(&connector{&db.file, dsn(path, "_txlock=immediate&_pragma=journal_size_limit(67108864)")})
	db.write.SetMaxOpenConns(1)
	db.read = sql.OpenDB(&connector{&db.file, dsn(path, "_pragma=query_only(1)")})
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := db.file.identify(); err != nil {
		return nil, errors.Join(db.fault("open", err), db.Close())
	}
	if err := db.connectReaders(ctx); err != nil {
		return nil, errors.Join(db.fault("open", err), db.Close())
	}
	return db, nil
}

// create creates the file so that only this user can read it: SQLite would use the umask. SQLite creates its other
// files with the same permissions.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn returns the data source name of the driver. Connections wait for each other, writes are on disk when they return,
// and a later connection does not create the file again.
func dsn(path, more string) string {
	settings := fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		patience.Milliseconds())
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=rw&" + settings + "&" + more
}

// Name returns the name of the database for people.
func (db *DB) Name() string { return "sqlite " + db.path }

// Close closes the database and ends all watches.
func (db *DB) Close() error {
	db.changes.Close()
	return errors.Join(db.read.Close(), db.write.Close())
}

// Watch yields the revisions of this process at once, and those of other processes within a fifth of a second.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.changes.Watch(ctx, notify.Timing{Poll: poll, Timeout: patience}, func(ctx context.Context) (int64, error) {
		last, _, err := db.Revision(ctx, "")
		return last, err
	})
}

// fault wraps an error of SQLite with the operation.
func (db *DB) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	kind := error(nil)
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch code := e.Code(); {
		case code&0xff == lib.SQLITE_FULL, code == lib.SQLITE_IOERR_SHMSIZE:
			kind = control.ErrFull
		case code&0xff == lib.SQLITE_NOTADB:
			return fmt.Errorf("%s %s: not an SQLite database", doing, db.path)
		}
	}
	if kind != nil {
		return fmt.Errorf("%s %s: %w: %w", doing, db.path, kind, err)
	}
	return fmt.Errorf("%s %s: %w", doing, db.path, err)
}

// Writable returns an error if the file was removed or replaced.
func (db *DB) Writable(context.Context) error {
	if err := db.file.check(); err != nil {
		return db.fault("write to", err)
	}
	return nil
}

// change runs f in a transaction without concurrent writes. It changes nothing if the file was removed or replaced.
func (db *DB) change(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	err := db.transact(ctx, doing, f)
	var e *sqlite.Error
	if errors.As(err, &e) && !errors.Is(err, control.ErrFull) {
		switch e.Code() & 0xff {
		case lib.SQLITE_READONLY, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM:
			return fmt.Errorf("%w: %w", control.ErrUnwritable, err)
		}
	}
	return err
}

func (db *DB) transact(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return db.fault(doing, err)
	}
	// Within the transaction SQLite has its log open, also on a new connection.
	if err = db.file.check(); err != nil {
		err = db.fault(doing, err)
	} else {
		err = f(tx)
	}
	if err != nil {
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		return db.wrapSQLite(doing, err)
	}
	return db.fault(doing, tx.Commit())
}

// view runs f on a consistent snapshot.
func (db *DB) view(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return db.fault(doing, err)
	}
	err = db.wrapSQLite(doing, f(tx))
	if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) && err == nil {
		err = db.fault(doing, undo)
	}
	return err
}

// wrapSQLite wraps errors of SQLite, and returns errors of this package and its callers unchanged.
func (db *DB) wrapSQLite(doing string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return db.fault(doing, err)
	}
	return err
}

// micros and at convert times to stored values and back.
func micros(t time.Time) int64  { return t.UnixMicro() }
func at(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
