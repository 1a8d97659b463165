package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is where instances tell each other of changes. It is of the whole database; who hears of a change in another
// schema looks, and finds nothing.
const channel = "headgate_rules"

const (
	// quiet is after how long without word the connection is tried.
	quiet = 20 * time.Second
	// retryMin and retryMax bound how long to wait before connecting again.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// listen wakes the watches when PostgreSQL tells of a change, and connects again when it was away, until ctx ends.
func (db *DB) listen(ctx context.Context, config *pgx.ConnConfig) {
	wait := retryMin
	for ctx.Err() == nil {
		started := time.Now()
		err := db.hear(ctx, config)
		if ctx.Err() != nil {
			return
		}
		db.log.Warn("no word of changes from the database; looking every few seconds instead", "database", db.name, "error", err)
		if time.Since(started) > quiet {
			wait = retryMin
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		wait = min(2*wait, retryMax)
	}
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
