package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/headgate/headgate/server/control/internal/tables"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the key of the advisory lock that serializes the migrations of instances that start at the same
// time. It is "head" in ASCII.
const migrationLock = 0x68656164

// migrate creates the tables, or migrates them to the latest version.
func (db *DB) migrate(ctx context.Context) error {
	return db.Transact(ctx, "open", tables.StreamTimeout, func(ctx context.Context, tx *sql.Tx) error {
		var encoding string
		if err := tx.QueryRowContext(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
			return err
		}
		if encoding != "UTF8" {
			return fmt.Errorf("open %s: its encoding is %s, want UTF8: "+
				"CREATE DATABASE headgate ENCODING 'UTF8' TEMPLATE template0", db.Name(), encoding)
		}
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS headgate_schema (version bigint NOT NULL)"); err != nil {
			return err
		}
		var version int
		err := tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM headgate_schema").Scan(&version)
		if err != nil {
			return err
		}
		latest, err := db.Migrate(ctx, tx, migrations, version)
		if err != nil || latest == version {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO headgate_schema VALUES ($1)", latest)
		return err
	})
}
