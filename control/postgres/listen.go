package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/control/internal/pulse"
)

// channel is where instances tell each other of changes. It is of the whole database; who hears of a change in another
// schema looks, and finds nothing.
const channel = "headgate_rules"

// quiet is after how long without word the connection is tried.
const quiet = 20 * time.Second

// listen wakes the watches when PostgreSQL tells of a change, and connects again when it was away, until ctx ends.
func (db *DB) listen(ctx context.Context, config *pgx.ConnConfig) {
	pulse.Listen(ctx, func(ctx context.Context) error { return db.hear(ctx, config) }, func(err error) {
		db.log.Warn("no word of changes from the database; looking every few seconds instead", "database", db.name, "err", err)
	})
}

// hear listens on one connection until that ends.
func (db *DB) hear(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), connecting)
		defer cancel()
		_ = conn.Close(ending) // it may be dead, which is why it is closed
	}()
	asking, cancel := context.WithTimeout(ctx, connecting)
	_, err = conn.Exec(asking, "LISTEN "+channel)
	cancel()
	if err != nil {
		return err
	}
	db.pulse.Beat() // for what was missed before
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		_, err := conn.WaitForNotification(waiting)
		timedOut := errors.Is(waiting.Err(), context.DeadlineExceeded)
		cancel()
		switch {
		case err == nil:
			db.pulse.Beat()
		case ctx.Err() != nil || !timedOut || conn.IsClosed():
			return err
		default:
			asking, cancel := context.WithTimeout(ctx, connecting)
			err := conn.Ping(asking)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}
