// Package sqldb stores the rules of a rules service in SQL tables. It is the common part of packages sqlite and
// postgres, which open a database, create the tables and describe the differences in a Dialect.
//
// The tables and queries are the same for both databases. Parameters are $1, $2 and so on. A list of rows is passed as
// one parameter, a JSON array, so that a query can read or write any number of rows.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/headgate/headgate/server/control/internal/notify"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// A Dialect describes the differences between databases.
type Dialect struct {
	// Elements is SQL for the elements of a JSON array as rows. %s stands for the array.
	Elements string
	// Position is the SQL function that returns the position of a text in another one, 0 if it is not found.
	Position string
	// Now returns SQL for the current time in microseconds.
	Now func() string
	// Lock is the end of a query that locks its rows. SkipLocked is the same, but omits rows that are already locked. Both
	// are empty if each transaction for writes locks the whole database.
	Lock, SkipLocked string
	// Notify is a query that notifies other processes of a change. It is empty if they poll.
	Notify string
	// BeginWrite is called at the beginning of each transaction for writes, with its timeout. If it returns an error, the
	// transaction is rolled back.
	BeginWrite func(ctx context.Context, tx *sql.Tx, timeout time.Duration) error
	// Classify returns the error of package control that an error stands for, nil if there is none. fromDatabase reports
	// whether the error came from the database or the connection to it.
	Classify func(err error, write bool) (kind error, fromDatabase bool)
	// Poll is the interval at which a watch looks for changes of other processes.
	Poll time.Duration
}

// A DB is an open database. Types that embed it and have the methods Close and Writable implement control.DB.
type DB struct {
	Dialect     Dialect
	Read, Write *sql.DB // may be the same
	Changes     notify.Notifier

	name string
}

// New returns a DB. The name is for messages. The tables must exist before other methods are called.
func New(name string, read, write *sql.DB, d Dialect) *DB {
	return &DB{Dialect: d, Read: read, Write: write, name: name}
}

// Name returns the name of the database for messages.
func (db *DB) Name() string { return db.name }

// Watch yields revisions by this process immediately, and revisions by other processes after a notification or at the
// next poll.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.Changes.Watch(ctx, notify.Timing{Poll: db.Dialect.Poll, Timeout: tables.CallTimeout}, db.lastRevision)
}

func (db *DB) lastRevision(ctx context.Context) (int64, error) {
	last, _, err := db.Revision(ctx, "")
	return last, err
}

// Fault adds the operation, and the error of package control if there is one, to an error of the database.
func (db *DB) Fault(operation string, err error) error { return db.fault(operation, err, false) }

func (db *DB) fault(operation string, err error, write bool) error {
	if err == nil {
		return nil
	}
	if kind, _ := db.Dialect.Classify(err, write); kind != nil {
		return fmt.Errorf("%s %s: %w: %w", operation, db.name, kind, err)
	}
	return fmt.Errorf("%s %s: %w", operation, db.name, err)
}

// elements returns SQL for the rows of a JSON array in a parameter. Their column is "value".
func (db *DB) elements(parameter string) string { return fmt.Sprintf(db.Dialect.Elements, parameter) }

// Transact runs f in a transaction for writes. It passes errors of the database to Fault, and returns other errors of f
// unchanged.
func (db *DB) Transact(ctx context.Context, operation string, timeout time.Duration,
	f func(ctx context.Context, tx *sql.Tx) error,
) error {
	ctx, cancel := tables.WithTimeout(ctx, timeout)
	defer cancel()
	tx, err := db.Write.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return db.fault(operation, err, true)
	}
	if err = db.Dialect.BeginWrite(ctx, tx, timeout); err != nil {
		err = db.fault(operation, err, true)
	} else if err = f(ctx, tx); err == nil {
		return db.fault(operation, tx.Commit(), true)
	}
	if rollbackErr := tx.Rollback(); rollbackErr != nil && !errors.Is(rollbackErr, sql.ErrTxDone) {
		err = errors.Join(err, rollbackErr)
	}
	if _, fromDatabase := db.Dialect.Classify(err, true); fromDatabase {
		return db.fault(operation, err, true)
	}
	return err
}

// change runs f in a transaction in which no other process changes objects or the log. last is the last revision.
func (db *DB) change(ctx context.Context, operation string, timeout time.Duration,
	f func(ctx context.Context, tx *sql.Tx, last int64) error,
) error {
	return db.Transact(ctx, operation, timeout, func(ctx context.Context, tx *sql.Tx) error {
		var last int64
		// With this lock, revisions become visible in order and without gaps.
		err := tx.QueryRowContext(ctx,
			"SELECT last FROM headgate_namespaces WHERE name = ''"+db.Dialect.Lock).Scan(&last)
		if err != nil {
			return err
		}
		return f(ctx, tx, last)
	})
}

// view runs f in a read-only transaction on a consistent snapshot.
func (db *DB) view(ctx context.Context, operation string, timeout time.Duration,
	f func(ctx context.Context, tx *sql.Tx) error,
) error {
	ctx, cancel := tables.WithTimeout(ctx, timeout)
	defer cancel()
	tx, err := db.Read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return db.Fault(operation, err)
	}
	err = f(ctx, tx)
	if rollbackErr := tx.Rollback(); rollbackErr != nil && !errors.Is(rollbackErr, sql.ErrTxDone) && err == nil {
		err = rollbackErr
	}
	if _, fromDatabase := db.Dialect.Classify(err, false); fromDatabase {
		return db.Fault(operation, err)
	}
	return err
}

// A querier is a transaction or a pool of connections.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// each calls f for each row of a query.
func each(ctx context.Context, q querier, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
