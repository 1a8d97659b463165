package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock serializes the migrations of instances that start at the same time: "head" in ASCII.
const migrationLock = 0x68656164

// migrate migrates the tables.
func (db *DB) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted by number
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, streamTimeout)
	defer cancel()
	return db.transaction(ctx, "open", pgx.TxOptions{}, func(tx pgx.Tx) error {
		var encoding string
		if err := tx.QueryRow(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
			return err
		}
		if encoding != "UTF8" {
			return fmt.Errorf("open %s: its encoding is %s, want UTF8: CREATE DATABASE headgate ENCODING 'UTF8' TEMPLATE template0", db.name, encoding)
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS headgate_schema (version bigint NOT NULL)"); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM headgate_schema").Scan(&version); err != nil {
			return err
		}
		if version > len(files) {
			return fmt.Errorf("open %s: %w of headgate: its schema is version %d, and this version knows %d; "+
				"run the newer version, or restore a backup made before it ran",
				db.name, control.ErrNewer, version, len(files))
		}
		for i, name := range files[version:] {
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO headgate_schema VALUES ($1)", version+i+1); err != nil {
				return err
			}
		}
		return nil
	})
}
