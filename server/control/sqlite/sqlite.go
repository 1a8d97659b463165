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
	// readers is the number of connections for reads. Snapshots and backups use one of them for a long time.
	readers = 8
	// busyTimeout is how long a write waits for a write of another process.
	busyTimeout = 10 * time.Second
	// poll is the interval in which a watch looks for changes of other processes.
	poll = 100 * time.Millisecond
)

// A DB is a database file. It is safe for concurrent use.
type DB struct {
	*sqldb.DB

	path string
	file file
}

var _ control.DB = (*DB)(nil)

// Open opens a database file. If it does not exist, Open creates it and its directory, readable only by this user. It
// migrates the file of an older version. For a newer version the error is control.ErrNewerSchema.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("open the rules in %s: %w", path, err)
	}
	db := &DB{path: path, file: file{path: path}}
	write := sql.OpenDB(&connector{&db.file, dsn(path, "_txlock=immediate&_pragma=journal_size_limit(67108864)")})
	write.SetMaxOpenConns(1) // SQLite has one writer
	read := sql.OpenDB(&connector{&db.file, dsn(path, "_pragma=query_only(1)")})
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	db.DB = sqldb.New("sqlite "+path, read, write, sqldb.Dialect{
		Elements: "json_each(%s)",
		Position: "instr",
		Now:      func() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) },
		// Within the transaction SQLite has its log open, also on a new connection.
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
		busyTimeout.Milliseconds())
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=rw&" + settings + "&" + more
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

// classify returns what an error of SQLite means.
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

// unwritable are the error codes of a write to a disk that is read-only or broken.
var unwritable = []int{lib.SQLITE_READONLY, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM}
