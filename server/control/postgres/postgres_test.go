//go:build unix

package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/dbtest"
	"github.com/headgate/headgate/server/internal/pgtest"
)

func open(t testing.TB, url string) *DB {
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

func TestPostgres(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	fresh := func(t testing.TB) func() control.DB {
		url := server.NewSchema(t)
		return func() control.DB { return open(t, url) }
	}
	t.Run("Conformance", func(t *testing.T) { dbtest.Run(t, fresh) })
	for name, test := range map[string]func(*testing.T, *pgtest.Server){
		"TablesOfANewerVersionAreRefused":  newerVersion,
		"DatabaseIsOpenedConcurrently":     openedAtOnce,
		"FullDiskRefusesWritesButNotReads": fullDisk,
		"WatchPollsWithoutNotifications":   withoutNotifications,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func TestPostgresAcrossOutages(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{Durable: true})
	for name, test := range map[string]func(*testing.T, *dbtest.Outage){
		"KilledServerLeavesChangesAtomic": func(t *testing.T, o *dbtest.Outage) { o.CheckKills(t, 2) },
		"WatchContinuesAfterAnOutage":     func(t *testing.T, o *dbtest.Outage) { o.CheckWatches(t) },
	} {
		t.Run(name, func(t *testing.T) {
			url := server.NewSchema(t)
			test(t, &dbtest.Outage{Kill: server.Kill, Restart: server.Restart, Open: func() control.DB { return open(t, url) }})
		})
	}
}

func TestSoakKilledServerLeavesChangesAtomic(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it takes minutes: set HEADGATE_SOAK=1")
	}
	server := pgtest.Start(t, pgtest.Options{Durable: true})
	url := server.NewSchema(t)
	o := &dbtest.Outage{Kill: server.Kill, Restart: server.Restart, Open: func() control.DB { return open(t, url) }}
	o.CheckKills(t, 50)
}

func newerVersion(t *testing.T, server *pgtest.Server) {
	url := server.NewSchema(t)
	db := open(t, url)
	if _, err := db.pool.Exec(t.Context(), "INSERT INTO headgate_schema VALUES (999)"); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(t.Context(), url, Options{}); !errors.Is(err, control.ErrNewerSchema) || !strings.Contains(err.Error(), "version 999") {
		t.Errorf("got %v, %v; want %v", again, err, control.ErrNewerSchema)
	}
}

func openedAtOnce(t *testing.T, server *pgtest.Server) {
	url := server.NewSchema(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			db, err := Open(t.Context(), url, Options{})
			if err != nil {
				t.Errorf("open %d: %v", i, err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if last, _, err := open(t, url).Revision(t.Context(), ""); err != nil || last != 0 {
		t.Errorf("got revision %d, %v; want 0", last, err)
	}
}

// A test cannot fill a tablespace, so a trigger returns PostgreSQL's error.
func fullDisk(t *testing.T, server *pgtest.Server) {
	db := open(t, server.NewSchema(t))
	if _, err := db.pool.Exec(t.Context(), `
		CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space left on device' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON headgate_ops EXECUTE FUNCTION full_disk()`); err != nil {
		t.Fatal(err)
	}
	c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.AnyRevision, Body: []byte(`{}`)}}}
	if err := db.Commit(t.Context(), &c); !errors.Is(err, control.ErrFull) {
		t.Errorf("got %v, want %v", err, control.ErrFull)
	}
	if _, err := db.Get(t.Context(), "n", control.KindRule, "a"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("got %v, want %v: nothing was written, and reads go on", err, control.ErrNotFound)
	}
}

// Without notifications, a watch finds changes by polling.
func withoutNotifications(t *testing.T, server *pgtest.Server) {
	url := server.NewSchema(t)
	writer, watcher := open(t, url), open(t, url)
	watcher.cancel()
	watcher.done.Wait()
	watcher.Dialect.Poll = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for revision := range watcher.Watch(ctx) {
		if revision == 1 {
			return
		}
		c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.AnyRevision, Body: []byte(`{}`)}}}
		if err := writer.Commit(ctx, &c); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the watch did not yield revision 1")
}

func BenchmarkPostgres(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Durable: true})
	dbtest.Bench(b, func(t testing.TB) func() control.DB {
		url := server.NewSchema(t)
		return func() control.DB { return open(t, url) }
	})
}
