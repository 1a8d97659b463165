package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/sqldb"
)

// connectTimeout is the timeout of a connection attempt, unless the URL has connect_timeout.
const connectTimeout = 5 * time.Second

// Options configure a database. The zero Options are valid.
type Options struct {
	// Logger logs when the database no longer sends notifications. Default none.
	Logger *slog.Logger
}

// A DB is a database of rules. It is safe for concurrent use.
type DB struct {
	*sqldb.DB

	pool   *pgxpool.Pool
	log    *slog.Logger
	cancel context.CancelFunc // ends the listener
	done   sync.WaitGroup
}

var _ control.DB = (*DB)(nil)

// Open connects to a database and migrates its tables. It returns control.ErrNewerSchema if a newer version of Headgate
// has migrated them.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, invalidURL(err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	// ctx limits only the opening. The pool must continue to work after it.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", nameOf(config.ConnConfig), err)
	}
	conns := stdlib.OpenDBFromPool(pool)
	db := &DB{pool: pool, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	db.DB = sqldb.New(nameOf(config.ConnConfig), conns, conns, dialect)
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.closePool())
	}
	listenCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	db.cancel = cancel
	db.done.Go(func() { db.listen(listenCtx, config.ConnConfig) })
	return db, nil
}

// invalidURL returns an error without the URL, which may contain a password.
func invalidURL(err error) error {
	const want = "want postgres://user:password@host:5432/database?sslmode=verify-full"
	var e *pgconn.ParseConfigError
	if errors.As(err, &e) && e.Unwrap() != nil {
		return fmt.Errorf("open PostgreSQL: bad URL: %w: %s", e.Unwrap(), want)
	}
	return errors.New("open PostgreSQL: bad URL: " + want)
}

// nameOf returns the name of a database, without the password.
func nameOf(c *pgx.ConnConfig) string {
	return "postgres " + c.User + "@" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// Writable returns nil, because only a write can show whether PostgreSQL accepts writes.
func (db *DB) Writable(context.Context) error { return nil }

// Close closes the database and ends all watches.
func (db *DB) Close() error {
	db.Changes.Close()
	db.cancel()
	db.done.Wait()
	return db.closePool()
}

func (db *DB) closePool() error {
	err := db.Read.Close()
	db.pool.Close()
	return err
}

// dialect describes PostgreSQL.
var dialect = sqldb.Dialect{
	Elements:   "json_array_elements(CAST(%s AS json))",
	Position:   "strpos",
	Now:        func() string { return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint" },
	Lock:       " FOR UPDATE",
	SkipLocked: " FOR UPDATE SKIP LOCKED",
	Notify:     "NOTIFY " + channel,
	BeginWrite: func(ctx context.Context, tx *sql.Tx, timeout time.Duration) error {
		// PostgreSQL aborts a transaction that is idle for longer, so that a hanging process does not keep its locks.
		_, err := tx.ExecContext(ctx, "SELECT set_config('idle_in_transaction_session_timeout', $1, true)",
			strconv.FormatInt(timeout.Milliseconds(), 10))
		return err
	},
	Classify: classify,
	Poll:     5 * time.Second,
}

// classify returns the error of package control that an error of PostgreSQL stands for, nil if there is none.
// fromDatabase reports whether the error came from PostgreSQL or the connection to it.
func classify(err error, _ bool) (kind error, fromDatabase bool) {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		var netErr net.Error
		closed := errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, control.ErrBroken)
		return nil, closed || errors.As(err, &netErr)
	}
	switch e.Code {
	case "53100": // disk_full
		return control.ErrFull, true
	case "25006", "42501", "58030": // read_only_sql_transaction, insufficient_privilege, io_error
		return control.ErrUnwritable, true
	}
	return nil, true
}
