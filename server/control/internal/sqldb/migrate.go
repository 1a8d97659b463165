package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/headgate/headgate/server/control"
)

// Migrate migrates the tables from a version to the latest one, which it returns. A version is the number of SQL files
// in migrations/ that were executed, in the order of their names.
func (db *DB) Migrate(ctx context.Context, tx *sql.Tx, migrations fs.FS, version int) (latest int, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted by number
	if err != nil {
		return 0, err
	}
	if version > len(files) {
		return 0, fmt.Errorf("open %s: %w of headgate: its schema is version %d, and this version knows %d; "+
			"run the newer version, or restore a backup from before its first start",
			db.name, control.ErrNewerSchema, version, len(files))
	}
	for _, name := range files[version:] {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return len(files), nil
}
