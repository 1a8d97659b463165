package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/dbtest"
)

func open(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func fresh(t testing.TB) func() control.DB {
	path := filepath.Join(t.TempDir(), "rules.db")
	return func() control.DB { return open(t, path) }
}

func TestConformance(t *testing.T) { dbtest.Run(t, fresh) }

func BenchmarkSQLite(b *testing.B) { dbtest.Bench(b, fresh) }
