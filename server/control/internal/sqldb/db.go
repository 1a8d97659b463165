// Package sqldb stores the rules of a rules service in SQL tables. It has all that SQLite and PostgreSQL share:
// packages sqlite and postgres open a database, create the tables and describe the differences in a Dialect.
//
// All tables and queries are the same for both. Parameters are $1, $2 and so on. Lists of rows are passed as one
// parameter, a JSON array, so that a query reads or writes any number of rows together.
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

// A Dialect describes how a database differs from others.
type Dialect struct {
	// Elements is the function that returns the elements of a JSON array as rows. %s stands for the array.
	Elements string
	// Position is the function that returns the position of a text in another, 0 if it is not there.
	Position string
	// Now returns the current time in microseconds, as SQL.
	Now func() string
	// Lock ends a query to lock its rows, and SkipLocked also leaves out rows that are locked already. Both are empty if
	// each transaction that writes locks the whole database.
	Lock, SkipLocked string
	// Notify is a query that notifies other processes of a change. Empty if they poll.
	Notify string
	// BeginWrite is called at the beginning of each transaction that writes, with its timeout. An error ends it.
	BeginWrite func(ctx context.Context, tx *sql.Tx, timeout time.Duration) error
	// Classify returns the error of package control that an error means, or nil. It also reports whether the error comes
	// from the database or the connection to it.
	Classify func(err error, write bool) (kind error, fromDatabase bool)
	// Poll is the interval in which a watch looks for changes of other processes.
	Poll time.Duration
}

// A DB is an open database. Packages embed it in types with Close and Writable, which makes them a control.DB.
type DB struct {
	Dialect     Dialect
	Read, Write *sql.DB // may be the same
	Changes     notify.Notifier

	name string
}

// New returns a DB with a name for people. The tables must exist before its methods are called.
func New(name string, read, write *sql.DB, d Dialect) *DB {
	return &DB{Dialect: d, Read: read, Write: write, name: name}
}

// Name returns the name of the database for people.
func (db *DB) Name() string { return db.name }

// Watch yields the revisions of this process immediately, and the revisions of other processes with a notification or
// the next poll.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.Changes.Watch(ctx, notify.Timing{Poll: db.Dialect.Poll, Timeout: tables.CallTimeout}, db.lastRevision)
}

func (db *DB) lastRevision(ctx context.Context) (int64, error) {
	last, _, err := db.Revision(ctx, "")
	return last, err
}

// Fault wraps an error of the database with the operation.
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

// Transact runs f in a transaction for writes. Errors of the database are wrapped, errors of f itself are not.
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

// change runs f while nothing else changes objects or the log. last is the last revision.
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

// view runs f on a consistent snapshot.
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
