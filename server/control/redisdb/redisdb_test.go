package redisdb

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/dbtest"
)

func open(t testing.TB, url string, o Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, o)
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

// fresh returns a function that creates databases on one server, each with its own prefix.
func fresh(url string) dbtest.New {
	var count atomic.Int64
	return func(t testing.TB) func() control.DB {
		prefix := fmt.Sprintf("p%d", count.Add(1))
		return func() control.DB { return open(t, url, Options{Prefix: prefix}) }
	}
}

// With small pages, other handles write between the pages of one read.
func TestConformanceWithSmallPages(t *testing.T) {
	made := fresh(redistest.Standalone(t, redistest.Options{}).URL())
	dbtest.Run(t, func(t testing.TB) func() control.DB {
		next := made(t)
		return func() control.DB {
			db := next().(*DB)
			db.batch = 7
			return db
		}
	})
}

func TestConformance(t *testing.T) {
	dbtest.Run(t, fresh(redistest.Standalone(t, redistest.Options{}).URL()))
}

func TestConformanceInACluster(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	dbtest.Run(t, fresh(cluster.URL()))
}

func TestWithSentinels(t *testing.T) {
	set := redistest.Sentinel(t, redistest.SentinelOptions{})
	db := open(t, set.URL(), Options{})
	c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.AnyRevision, Body: []byte(`{}`)}}}
	if err := db.Commit(t.Context(), &c); err != nil || c.Revision != 1 {
		t.Errorf("got revision %d, %v; want 1", c.Revision, err)
	}
}

func TestWithTLS(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{TLS: true, Password: "secret"})
	db := open(t, server.URL()+"?tls_ca_file="+server.Certificates().CAFile, Options{})
	if last, _, err := db.Revision(t.Context(), ""); err != nil || last != 0 {
		t.Errorf("got revision %d, %v; want 0", last, err)
	}
	if db, err := Open(t.Context(), server.URL(), Options{}); err == nil {
		t.Errorf("without its certificate it was trusted: %s", db.Name())
	}
}

func TestAcrossOutages(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Persist: true, Config: []string{"appendfsync always"}})
	made := 0
	for name, test := range map[string]func(*testing.T, *dbtest.Outage){
		"KilledServerLeavesChangesAtomic": func(t *testing.T, o *dbtest.Outage) { o.CheckKills(t, 5) },
		"WatchContinuesAfterAnOutage":     func(t *testing.T, o *dbtest.Outage) { o.CheckWatches(t) },
	} {
		t.Run(name, func(t *testing.T) {
			made++
			prefix := fmt.Sprintf("outage%d", made)
			test(t, &dbtest.Outage{Kill: server.Kill, Restart: server.Restart, Open: func() control.DB { return open(t, server.URL(), Options{Prefix: prefix}) }})
		})
	}
}

func TestDatabaseOfANewerVersionIsRefused(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	db := open(t, server.URL(), Options{})
	if _, err := server.Do("HSET", db.key("progress"), "form", "999"); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(t.Context(), server.URL(), Options{}); !errors.Is(err, control.ErrNewerSchema) || !strings.Contains(err.Error(), "version 999") {
		t.Errorf("got %v, %v; want %v", again, err, control.ErrNewerSchema)
	}
}

func TestWarningForServersThatMayLoseRules(t *testing.T) {
	for _, tt := range []struct {
		o    redistest.Options
		want []string
	}{
		{redistest.Options{}, []string{"append-only"}},
		{redistest.Options{Config: []string{"appendonly yes", "appendfsync everysec"}}, []string{"appendfsync always"}},
		{redistest.Options{Config: []string{"appendonly yes", "appendfsync always"}}, nil},
		{redistest.Options{Config: []string{"appendonly yes", "appendfsync always"}, MaxMemory: 100 << 20, MaxMemoryPolicy: "allkeys-lru"}, []string{"evict"}},
	} {
		server := redistest.Standalone(t, tt.o)
		var said bytes.Buffer
		open(t, server.URL(), Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		for _, want := range tt.want {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%+v: got %q, want a warning of %s", tt.o, said.String(), want)
			}
		}
		if tt.want == nil && said.Len() > 0 {
			t.Errorf("%+v: got %q, want no warning", tt.o, said.String())
		}
	}
}

func TestFullDatabaseRefusesWritesButNotReads(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	db := open(t, server.URL(), Options{})
	commit := func(body string) error {
		return db.Commit(t.Context(), &control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.AnyRevision, Body: []byte(body)}}})
	}
	if err := commit(`1`); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes string) {
		t.Helper()
		if _, err := server.Do("CONFIG", "SET", "maxmemory", bytes); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	if err := commit(`2`); !errors.Is(err, control.ErrFull) {
		t.Errorf("commit: got %v, want %v", err, control.ErrFull)
	}
	if o, err := db.Get(t.Context(), "n", control.KindRule, "a"); err != nil || string(o.Body) != `1` {
		t.Errorf("get: got %+v, %v; want 1", o, err)
	}
	if list, err := db.List(t.Context(), control.Query{Namespace: "n", Kind: control.KindRule, Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("list: got %v, %v; want one", list, err)
	}
	limit("0")
	if err := commit(`3`); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func BenchmarkRedis(b *testing.B) {
	dbtest.Bench(b, fresh(redistest.Standalone(b, redistest.Options{Persist: true, Config: []string{"appendfsync always"}}).URL()))
}
