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

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/internal/pulse"
)

const (
	// connecting is how long a connection may take, unless the URL says connect_timeout.
	connecting = 5 * time.Second
	// calling is how long a call may take whose caller says nothing.
	calling = 30 * time.Second
	// streaming is the same for those that carry everything.
	streaming = 10 * time.Minute
	// poll is how often a watch looks by itself.
	poll = 5 * time.Second
)

// Options say how a database is used. The zero Options are good for most.
type Options struct {
	// Logger hears when word of changes does not get through. Default none.
	Logger *slog.Logger
}

// A DB is a database of rules. It is safe for concurrent use.
type DB struct {
	name   string
	pool   *pgxpool.Pool
	log    *slog.Logger
	poll   time.Duration // of watches; only tests change it
	pulse  pulse.Pulse
	cancel context.CancelFunc // of the listener
	done   sync.WaitGroup
}

var _ control.DB = (*DB)(nil)

// Open connects to a database and brings its tables up to date. One of a newer version is control.ErrNewer.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL(err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connecting
	}
	db := &DB{name: nameOf(config.ConnConfig), log: o.Logger, poll: poll}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	// The pool goes on when ctx ends: it is that of opening.
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

// badURL keeps what the URL said out of the message: it may hold a password.
func badURL(err error) error {
	var e *pgconn.ParseConfigError
	if errors.As(err, &e) && e.Unwrap() != nil {
		return fmt.Errorf("open PostgreSQL: bad URL: %w: want postgres://user:password@host:5432/database?sslmode=verify-full", e.Unwrap())
	}
	return errors.New("open PostgreSQL: bad URL: want postgres://user:password@host:5432/database?sslmode=verify-full")
}

// nameOf says which database it is, without the password.
func nameOf(c *pgx.ConnConfig) string {
	return "postgres " + c.User + "@" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// Writable returns nil: PostgreSQL refuses writes itself, and no sooner than they come.
func (db *DB) Writable(context.Context) error { return nil }

// Name says which database it is.
func (db *DB) Name() string { return db.name }

// Close ends it. Watches end with it.
func (db *DB) Close() error {
	db.pulse.Close()
	db.cancel()
	db.done.Wait()
	db.pool.Close()
	return nil
}

// Watch yields revisions: of all instances as soon as PostgreSQL tells, and within seconds if it does not.
func (db *DB) Watch(ctx context.Context) iter.Seq[int64] {
	return db.pulse.Watch(ctx, pulse.Times{Poll: db.poll, Ask: calling}, func(ctx context.Context) (int64, error) {
		last, _, err := db.Revision(ctx, "")
		return last, err
	})
}

// fault wraps an error of PostgreSQL or of the network with what was being done.
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

// bounded gives a call whose caller set no deadline one.
func bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// lock is taken by all who change objects or the log, so that revisions become visible in their order and none is left out.
// A client that dies with it loses it soon.
const lock = "SELECT last FROM headgate_namespaces WHERE name = '' FOR UPDATE"

// change runs f while nobody else changes objects or the log. Last is the last revision.
func (db *DB) change(ctx context.Context, doing string, most time.Duration, f func(ctx context.Context, tx pgx.Tx, last int64) error) error {
	ctx, cancel := bounded(ctx, most)
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

// view runs f on the database as it is at one moment.
func (db *DB) view(ctx context.Context, doing string, most time.Duration, f func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := bounded(ctx, most)
	defer cancel()
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return db.transaction(ctx, doing, o, func(tx pgx.Tx) error { return f(ctx, tx) })
}

// transaction runs f. What PostgreSQL or the network says is wrapped, what f says itself is not.
func (db *DB) transaction(ctx context.Context, doing string, o pgx.TxOptions, f func(pgx.Tx) error) error {
	tx, err := db.pool.BeginTx(ctx, o)
	if err != nil {
		return db.fault(doing, err)
	}
	if err := f(tx); err != nil {
		// Whatever becomes of it: the transaction ends with its connection at the latest.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), connecting)
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

// at turns what is kept into a time.
func at(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
