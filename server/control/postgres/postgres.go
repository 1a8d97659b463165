package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/notify"
)

const (
	// connectTimeout is the default connect_timeout.
	connectTimeout = 5 * time.Second
	// callTimeout is the timeout of calls without a deadline.
	callTimeout = 30 * time.Second
	// streamTimeout is the timeout of calls that transfer everything.
	streamTimeout = 10 * time.Minute
	// pollInterval is the poll interval of watches.
	pollInterval = 5 * time.Second
)

// Options configure a database. The zero Options are good for most uses.
type Options struct {
	// Logger logs when notifications do not arrive. Default none.
	Logger *slog.Logger
}

// A DB is a database of rules. It is safe for concurrent use.
type DB struct {
	name    string
	pool    *pgxpool.Pool
	log     *slog.Logger
	poll    time.Duration // of watches; only tests change it
	changes notify.Notifier
	cancel  context.CancelFunc // of the listener
	done    sync.WaitGroup
}

var _ control.DB = (*DB)(nil)

// Open connects to a database and migrates its tables. For a newer schema the error is control.ErrNewer.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, invalidURL(err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	db := &DB{name: nameOf(config.ConnConfig), log: o.Logger, poll: pollInterval}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	// The pool outlives ctx, which is only for opening.
	if db.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, db.fault("open", err)
	}
	if err := db.migrate(ctx); err != nil {
		db.pool.Close()
		return nil, err
	}
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	db.cancel = cancel
	db.done.Go(func() { db.listen(listening, config.ConnConfig) })
	return db, nil
}

// invalidURL keeps the URL out of the message: it may contain a password.
func invalidURL(err error) error {
	var e *pgconn.ParseConfigError
	if errors.As(err, &e) && e.Unwrap() != nil {
		return fmt.Errorf("open PostgreSQL: bad URL: %w: want postgres://user:password@host:5432/database?sslmode=verify-full", e.Unwrap())
	}
	return errors.New("open PostgreSQL: bad URL: want postgres://user:password@host:5432/database?sslmode=verify-full")
}

// nameOf returns the name of a database, without the password.
func nameOf(c *pgx.ConnConfig) string {
	return "postgres " + c.User + "@" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// Writable returns nil: PostgreSQL refuses writes itself, when they come.
func (db *DB) Writable(context.Context) error { return nil }

// Name returns the name of the database for people.
func (db *DB) Name() string { return db.name }

// Close closes the database and ends all watches.
func (db *DB) Close() error {
	db.changes.Close()
	db.cancel()
	db.done.Wait()
	db.pool.Close()
	return nil
}

// Watch yields the revisions of all instances: at once with a notification, within seconds without.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.changes.Watch(ctx, notify.Timing{Poll: db.poll, Timeout: callTimeout},
		func(ctx context.Context) (int64, error) {
			last, _, err := db.Revision(ctx, "")
			return last, err
		})
}

// fault wraps an error of PostgreSQL or the network with the operation.
func (db *DB) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code {
		case "53100": // disk_full
			return fmt.Errorf("%s %s: %w: %w", doing, db.name, control.ErrFull, err)
		case "25006", "42501", "58030": // read_only_sql_transaction, insufficient_privilege, io_error
			return fmt.Errorf("%s %s: %w: %w", doing, db.name, control.ErrUnwritable, err)
		}
	}
	return fmt.Errorf("%s %s: %w", doing, db.name, err)
}

// withTimeout adds a timeout to a context without a deadline.
func withTimeout(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// lock is the query that locks changes of objects and the log, so that revisions become visible in order and without
// gaps. A client that dies with the lock loses it soon.
const lock = "SELECT last FROM headgate_namespaces WHERE name = '' FOR UPDATE"

// change runs f while nothing else changes objects or the log. last is the last revision.
func (db *DB) change(
	ctx context.Context, doing string, most time.Duration, f func(ctx context.Context, tx pgx.Tx, last int64) error,
) error {
	ctx, cancel := withTimeout(ctx, most)
	defer cancel()
	return db.transaction(ctx, doing, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var last int64
		b := &pgx.Batch{}
		b.Queue("SELECT set_config('idle_in_transaction_session_timeout', '30s', true)")
		b.Queue(lock).QueryRow(func(row pgx.Row) error { return row.Scan(&last) })
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return f(ctx, tx, last)
	})
}

// view runs f on a consistent snapshot.
func (db *DB) view(
	ctx context.Context, doing string, most time.Duration, f func(ctx context.Context, tx pgx.Tx) error,
) error {
	ctx, cancel := withTimeout(ctx, most)
	defer cancel()
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return db.transaction(ctx, doing, o, func(tx pgx.Tx) error { return f(ctx, tx) })
}

// transaction runs f. Errors of PostgreSQL and the network are wrapped, errors of f itself are not.
func (db *DB) transaction(ctx context.Context, doing string, o pgx.TxOptions, f func(pgx.Tx) error) error {
	tx, err := db.pool.BeginTx(ctx, o)
	if err != nil {
		return db.fault(doing, err)
	}
	if err := f(tx); err != nil {
		// An error does not matter: the transaction ends with its connection at the latest.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = tx.Rollback(ending)
		var said *pgconn.PgError
		var lost net.Error
		if errors.As(err, &said) || errors.As(err, &lost) || errors.Is(err, io.ErrUnexpectedEOF) && tx.Conn().IsClosed() {
			return db.fault(doing, err)
		}
		return err
	}
	return db.fault(doing, tx.Commit(ctx))
}

// timeOf converts a stored time.
func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
