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

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/internal/notify"
)

const (
	// readers is how many may read at once. Who holds a snapshot or a backup takes one of them for long.
	readers = 8
	// patience is how long a write waits for one of another process.
	patience = 10 * time.Second
	// poll is how often a watch looks for what another process has written.
	poll = 100 * time.Millisecond
)

// A DB is a file of rules. It is safe for concurrent use.
type DB struct {
	path    string
	file    file
	write   *sql.DB // one connection: SQLite has one writer
	read    *sql.DB
	changes notify.Notifier
}

var _ control.DB = (*DB)(nil)

// Open opens a file of rules, and makes it if there is none: with its directory, for this user only. One of an older version
// is brought up to date; one of a newer version is control.ErrNewer.
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

// create makes the file, so that nobody else can read it: SQLite would go by the umask. What SQLite puts beside it has the
// same rights.
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

// dsn returns what the driver opens: each connection waits for others, and a write is on disk before it returns. A connection
// that is opened later does not create the file again.
func dsn(path, more string) string {
	settings := fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", patience.Milliseconds())
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=rw&" + settings + "&" + more
}

// Name says where the file is.
func (db *DB) Name() string { return "sqlite " + db.path }

// Close ends it. Watches end with it.
func (db *DB) Close() error {
	db.changes.Close()
	return errors.Join(db.read.Close(), db.write.Close())
}

// Watch yields revisions: those of this process at once, those of others on this machine within a fifth of a second.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.changes.Watch(ctx, notify.Timing{Poll: poll, Timeout: patience}, func(ctx context.Context) (int64, error) {
		last, _, err := db.Revision(ctx, "")
		return last, err
	})
}

// fault wraps an error of SQLite with what was being done.
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
			return fmt.Errorf("%s %s: it is no database of SQLite", doing, db.path)
		}
	}
	if kind != nil {
		return fmt.Errorf("%s %s: %w: %w", doing, db.path, kind, err)
	}
	return fmt.Errorf("%s %s: %w", doing, db.path, err)
}

// Writable returns why the database cannot be written, as far as that is known without a write. It returns nil if it can.
func (db *DB) Writable(context.Context) error {
	if err := db.file.check(); err != nil {
		return db.fault("write to", err)
	}
	return nil
}

// change runs f in a transaction that nobody else writes beside. It changes nothing if the file was removed or replaced.
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
	// Within the transaction SQLite has its log open, whatever happened to the connection that was used before.
	if err = db.file.check(); err != nil {
		err = db.fault(doing, err)
	} else {
		err = f(tx)
	}
	if err != nil {
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		return db.own(doing, err)
	}
	return db.fault(doing, tx.Commit())
}

// view runs f on the database as it is at one moment.
func (db *DB) view(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return db.fault(doing, err)
	}
	err = db.own(doing, f(tx))
	if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) && err == nil {
		err = db.fault(doing, undo)
	}
	return err
}

// own wraps what SQLite says, and leaves alone what this package or its caller says.
func (db *DB) own(doing string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return db.fault(doing, err)
	}
	return err
}

// micros and at turn times into what is kept and back.
func micros(t time.Time) int64  { return t.UnixMicro() }
func at(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
