package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/sqldb"
)

const (
	// readers is the number of connections for reads. A snapshot or backup occupies one of them for a long time.
	readers = 8
	// busyTimeout is how long a write waits for a write of another process.
	busyTimeout = 10 * time.Second
	// poll is the interval at which a watch looks for changes of other processes.
	poll = 100 * time.Millisecond
)

// A DB is a database file. It is safe for concurrent use.
type DB struct {
	*sqldb.DB

	path string
	file file
}

var _ control.DB = (*DB)(nil)

// Open opens a database file and migrates its tables. If the file does not exist, Open creates it and its directory,
// readable only by this user. Open returns control.ErrNewerSchema if a newer version of Headgate has migrated the
// tables.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("open the rules in %s: %w", path, err)
	}
	db := &DB{path: path, file: file{path: path}}
	write := sql.OpenDB(&connector{&db.file, dsn(path, writeSettings)})
	write.SetMaxOpenConns(1) // SQLite has one writer
	read := sql.OpenDB(&connector{&db.file, dsn(path, "_pragma=query_only(1)")})
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	db.DB = sqldb.New("sqlite "+path, read, write, sqldb.Dialect{
		Elements: "json_each(%s)",
		Position: "instr",
		Now:      func() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) },
		// The check is in BeginWrite because it needs a transaction, in which SQLite has its log open.
		BeginWrite: func(context.Context, *sql.Tx, time.Duration) error { return db.file.check() },
		Classify:   classify,
		Poll:       poll,
	})
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := db.file.identify(); err != nil {
		return nil, errors.Join(db.Fault("open", err), db.Close())
	}
	if err := db.connectReaders(ctx); err != nil {
		return nil, errors.Join(db.Fault("open", err), db.Close())
	}
	return db, nil
}

// create creates an empty file that only this user can read. SQLite would use the umask instead. SQLite creates its
// other files with the permissions of this one.
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

// writeSettings are the settings of the connection for writes. With secure_delete, SQLite overwrites deleted content
// with zeros, so that names of erased clients and revoked secrets do not remain in free pages.
const writeSettings = "_txlock=immediate&_pragma=journal_size_limit(67108864)&_pragma=secure_delete(1)"

// dsn returns the data source name for the driver. With its settings, connections wait for each other's locks, commits
// return when they are on disk, and connections do not create a missing file (mode=rw).
func dsn(path, moreSettings string) string {
	settings := fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		busyTimeout.Milliseconds())
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=rw&" + settings + "&" + moreSettings
}

// Close closes the database and ends all watches.
func (db *DB) Close() error {
	db.Changes.Close()
	return errors.Join(db.Read.Close(), db.Write.Close())
}

// Writable returns an error if the file was removed or replaced.
func (db *DB) Writable(context.Context) error { return db.Fault("write to", db.file.check()) }

// errNoDatabase replaces SQLite's error for a file with other content.
var errNoDatabase = errors.New("not an SQLite database")

// classify returns the error of package control that an error of SQLite stands for, nil if there is none. fromDatabase
// reports whether the error came from SQLite.
func classify(err error, write bool) (kind error, fromDatabase bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil, false
	}
	switch code := e.Code(); {
	case code&0xff == lib.SQLITE_FULL, code == lib.SQLITE_IOERR_SHMSIZE:
		return control.ErrFull, true
	case code&0xff == lib.SQLITE_NOTADB:
		return errNoDatabase, true
	case write && slices.Contains(unwritable, code&0xff):
		return control.ErrUnwritable, true
	}
	return nil, true
}

// unwritable are the error codes of writes to a disk that is read-only or broken.
var unwritable = []int{lib.SQLITE_READONLY, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM}
