//go:build unix

package open

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/dbtest"
	"github.com/headgate/headgate/server/internal/pgtest"
)

func open(t testing.TB, url string) control.DB {
	t.Helper()
	db, err := Open(t.Context(), url, Options{})
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

// Backups of all databases have one format: the content is moved from each to the next, and back to the first.
func TestRulesMoveFromEachDatabaseToEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules ?%20.db")
	server := redistest.Standalone(t, redistest.Options{Password: "secret"})
	place := pgtest.Start(t, pgtest.Options{})
	file, pg, redis := open(t, path), open(t, place.NewSchema(t)), open(t, server.URL())
	for _, tt := range []struct {
		db   control.DB
		want string
	}{
		{file, "sqlite " + path},
		{pg, "postgres headgate@127.0.0.1:"},
		{redis, "redis redis://" + server.Addr()},
	} {
		if name := tt.db.Name(); !strings.HasPrefix(name, tt.want) || strings.Contains(name, "secret") {
			t.Errorf("name: got %q, want %q and no password", name, tt.want)
		}
	}
	dbtest.Move(t, file, pg)
	dbtest.Move(t, pg, redis)
	dbtest.Move(t, redis, open(t, "sqlite:"+filepath.Join(t.TempDir(), "again.db")))
}

func TestErrorsOfOpenContainNoPassword(t *testing.T) {
	for _, url := range []string{
		"", "sqlite:", "mysql://root:secret@localhost/x", "postgres://u:secret@host:port/x", "postgres://u:secret@127.0.0.1:1/x?sslmode=disable&connect_timeout=1",
		"redis://:secret@/", "redis://:secret@127.0.0.1:1", "redis://:secret@127.0.0.1:1/x", "redis://:secret@a,b", "redis://:secret@a?x=y", "redis://:secret%zz@a", "redis-cluster://:secret@a/1",
		"redis-sentinel://:secret@a", "redis://:secret@a?protocol=4", "redis://:secret@a?dial_timeout=x", "redis://:secret@a?tls_insecure=true", "rediss://:secret@a?tls_ca_file=/nowhere",
		filepath.Join("/proc", "nowhere", "rules.db"),
	} {
		db, err := Open(t.Context(), url, Options{})
		if err == nil {
			t.Errorf("%s: it was opened as %s", url, db.Name())
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password in it: %v", url, err)
		}
	}
}
