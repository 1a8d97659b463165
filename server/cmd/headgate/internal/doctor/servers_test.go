//go:build unix

package doctor_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/cmd/headgate/internal/doctor"
	"github.com/headgate/headgate/server/control/postgres"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/internal/pgtest"
)

// patience is the timeout of checks, on a busy machine too.
const patience = time.Minute

func TestRedisIsCheckedWithoutChangingIt(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{MaxMemory: 64 << 20, MaxMemoryPolicy: "allkeys-lru", ClockOffset: -time.Hour})
	report := examine(t, doctor.Options{Timeout: patience}, "redis: { deadline: 10s }\nstore: "+server.URL()+"\n")
	want(t, report, doctor.OK, "store", "primary "+server.Addr(), "version")
	want(t, report, doctor.OK, "store", "20 calls: median", "clock skew -1h")
	want(t, report, doctor.Warning, "store", "evicts keys", "maxmemory-policy noeviction")
	want(t, report, doctor.Warning, "store", "1h0m0s behind that of this host", "synchronize the clocks")
	want(t, report, doctor.Warning, "secrets", "key_secret_file")
	if keys, err := server.Do("DBSIZE"); err != nil || keys != int64(0) {
		t.Errorf("got %v keys and error %v, want 0", keys, err)
	}
}

func TestSlowRedisIsAProblem(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetDelay(5 * time.Millisecond)
	report := examine(t, doctor.Options{Timeout: patience}, "redis: { deadline: 2ms }\nstore: redis://"+proxy.Addr()+"\n")
	want(t, report, doctor.Problem, "store", "most decisions fall back", "redis.deadline")
	proxy.Cut()
	report = examine(t, doctor.Options{Timeout: patience}, "store: redis://"+proxy.Addr()+"\n")
	want(t, report, doctor.Problem, "store", proxy.Addr(), "redis-cli")
}

func TestClusterSettingsAreChecked(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.ClusterOptions{
		Server: redistest.Options{Config: []string{"cluster-require-full-coverage yes"}},
	})
	report := examine(t, doctor.Options{Timeout: patience}, "redis: { deadline: 10s }\nstore: "+cluster.URL()+"\n")
	want(t, report, doctor.Warning, "store", "cluster-require-full-coverage", "CONFIG SET")
	for _, server := range cluster.Servers() {
		want(t, report, doctor.OK, "store", server.Addr(), "version")
	}
}

func TestSQLiteIsCheckedWithoutChangingIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	yaml := "db: " + path + "\n"
	want(t, examine(t, doctor.Options{}, yaml), doctor.OK, "db", "the first start creates it")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("got %v, want no file", err)
	}
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	want(t, examine(t, doctor.Options{}, yaml), doctor.OK, "db", "is intact", "its schema is current")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ statement, words string }{
		{"PRAGMA user_version = 1000", "from a newer version"},
		{"PRAGMA application_id = 7", "of another program"},
	} {
		raw, err := sql.Open("sqlite", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Exec(c.statement); err != nil {
			t.Fatal(err)
		}
		if err := raw.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, examine(t, doctor.Options{}, yaml), doctor.Problem, "db", c.words)
	}
	text := "db: " + write(t, "rules.db", "this is not a database, but a text that is long enough") + "\n"
	want(t, examine(t, doctor.Options{}, text), doctor.Problem, "db", "not a database")
}

func TestPostgresIsCheckedWithoutChangingIt(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	url := server.NewSchema(t)
	yaml := "db: " + url + "\n"
	o := doctor.Options{Timeout: patience}
	for range 2 { // the first check creates no tables
		want(t, examine(t, o, yaml), doctor.OK, "db", "postgres", "clock skew", "it has no tables yet")
	}
	db, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, examine(t, o, yaml), doctor.OK, "db", "its schema is current")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wrong := "db: postgres://nobody:secret@127.0.0.1:1/none\n"
	report := examine(t, o, wrong)
	want(t, report, doctor.Problem, "db", "connect to postgres nobody@127.0.0.1:1/none", "user and password of db")
	for _, r := range report.Checks {
		if r.Check == "db" && (strings.Contains(r.Detail, "secret") || strings.Contains(r.Fix, "secret")) {
			t.Errorf("got %q, want no password", r.Detail)
		}
	}
}
