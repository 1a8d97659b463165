package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control/internal/notify"
)

// channel is the name of the notification channel. Rules services in different schemas of a database share it. A
// notification from another schema only causes a check that finds no change.
const channel = "headgate_rules"

// pingAfter is the time without notifications after which receive tests the connection.
const pingAfter = 20 * time.Second

// listen calls db.Changes.Notify when PostgreSQL notifies of a change. It reconnects after an outage, until ctx ends.
func (db *DB) listen(ctx context.Context, config *pgx.ConnConfig) {
	notify.Listen(ctx, func(ctx context.Context) error { return db.receive(ctx, config) }, func(err error) {
		db.log.Warn("no change notifications from the database, polling every few seconds instead", "database", db.Name(),
			"err", err)
	})
}

// receive listens on a new connection until the connection fails or ctx ends.
func (db *DB) receive(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = conn.Close(closeCtx) // an error is expected if the connection is broken
	}()
	callCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	_, err = conn.Exec(callCtx, "LISTEN "+channel)
	cancel()
	if err != nil {
		return err
	}
	db.Changes.Notify() // for changes missed while disconnected
	for {
		waitCtx, cancel := context.WithTimeout(ctx, pingAfter)
		_, err := conn.WaitForNotification(waitCtx)
		timedOut := errors.Is(waitCtx.Err(), context.DeadlineExceeded)
		cancel()
		switch {
		case err == nil:
			db.Changes.Notify()
		case ctx.Err() != nil || !timedOut || conn.IsClosed():
			return err
		default:
			callCtx, cancel := context.WithTimeout(ctx, connectTimeout)
			err := conn.Ping(callCtx)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}
