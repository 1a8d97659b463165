package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/headgate/headgate/server/control"
)

//go:embed migrations/*.sql
var migrations embed.FS

// application is the application ID in files of this program: "HGru".
const application = 0x48477275

// migrate migrates the tables, under the lock of writers.
func (db *DB) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted by number
	if err != nil {
		return err
	}
	return db.change(ctx, "open", func(tx *sql.Tx) error {
		var version, mark, tables int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&mark); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
			return err
		}
		switch {
		case mark != application && tables > 0:
			return fmt.Errorf("open %s: it is a database of another program", db.path)
		case version > len(files):
			return fmt.Errorf("open %s: %w of headgate: its schema is version %d, and this version knows %d; "+
				"run the newer version, or restore a backup that was made before it ran",
				db.path, control.ErrNewer, version, len(files))
		case version == len(files):
			return nil
		}
		for _, name := range files[version:] {
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", len(files),
			application))
		return err
	})
}
