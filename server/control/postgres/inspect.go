package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
)

// An Inspection describes a database.
type Inspection struct {
	// Name is the user, address and name of the database, without the password.
	Name string
	// Version is the version of the server.
	Version string
	// Schema is the version of the tables, 0 if there are none. Latest is the version to which Open migrates them.
	Schema, Latest int
	// Encoding is the encoding of the database. Open accepts only UTF8.
	Encoding string
	// Replica reports whether the server is a replica, which refuses writes.
	Replica bool
	// Ping is the round-trip time of a query.
	Ping time.Duration
	// Skew is how far the server's clock is ahead of the clock of this host. It is accurate to half of Ping.
	Skew time.Duration
}

// Inspect connects to a database and describes it, without changing it.
func Inspect(ctx context.Context, url string) (result Inspection, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return result, invalidURL(err)
	}
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	result.Name = nameOf(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return result, fmt.Errorf("connect to %s: %w", result.Name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var hasSchema bool
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_encoding'),
		pg_is_in_recovery(), to_regclass('headgate_schema') IS NOT NULL`).
		Scan(&result.Version, &result.Encoding, &result.Replica, &hasSchema)
	if err == nil && hasSchema {
		err = conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM headgate_schema").Scan(&result.Schema)
	}
	if err != nil {
		return result, fmt.Errorf("read %s: %w", result.Name, err)
	}
	if err := result.readClock(ctx, conn); err != nil {
		return result, fmt.Errorf("read the clock of %s: %w", result.Name, err)
	}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	result.Latest = len(files)
	return result, err
}

// readClock reads the server's clock three times, and keeps the reading with the shortest round trip.
func (r *Inspection) readClock(ctx context.Context, conn *pgx.Conn) error {
	for i := range 3 {
		var server time.Time
		before := time.Now()
		if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&server); err != nil {
			return err
		}
		if ping := time.Since(before); i == 0 || ping < r.Ping {
			r.Ping, r.Skew = ping, server.Sub(before.Add(ping/2))
		}
	}
	return nil
}
