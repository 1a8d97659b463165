package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/headgate/headgate/server/control/internal/tables"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is the application ID in files of this program: "HGru".
const applicationID = 0x48477275

// migrate creates the tables, or migrates them to the latest version. Its transaction excludes other writers.
func (db *DB) migrate(ctx context.Context) error {
	return db.Transact(ctx, "open", tables.StreamTimeout, func(ctx context.Context, tx *sql.Tx) error {
		var version, appID, tableCount, namespacesCount int
		for query, into := range map[string]*int{
			"PRAGMA user_version": &version, "PRAGMA application_id": &appID, "SELECT count(*) FROM sqlite_master": &tableCount,
			"SELECT count(*) FROM sqlite_master WHERE name = 'headgate_namespaces'": &namespacesCount,
		} {
			if err := tx.QueryRowContext(ctx, query).Scan(into); err != nil {
				return err
			}
		}
		if appID != applicationID && tableCount > 0 {
			return fmt.Errorf("open %s: it is a database of another program", db.path)
		}
		if version > 0 && namespacesCount == 0 {
			return fmt.Errorf("open %s: its tables are from a build before v0.1.0; save the rules with that build "+
				"(headgate backup), move the file away, start again and restore them (headgate restore)", db.path)
		}
		latest, err := db.Migrate(ctx, tx, migrations, version)
		if err != nil || latest == version {
			return err
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", latest, applicationID))
		return err
	})
}
