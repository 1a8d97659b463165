package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/headgate/headgate/server/control"
)

// Migrate executes the SQL files in migrations/, except the first version files, which were executed before. It returns
// the latest version.
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
