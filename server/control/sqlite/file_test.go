package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

func change(ops ...control.Op) *control.Change {
	return &control.Change{Namespace: "n", Base: control.AnyRevision, Ops: ops}
}

func ruleOf(id, body string) control.Op {
	return control.Op{Kind: control.KindRule, ID: id, Base: control.AnyRevision, Body: []byte(body)}
}

func TestFileIsReadableByItsUserOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has other rights")
	}
	path := filepath.Join(t.TempDir(), "made", "for", "it", "rules.db")
	db := open(t, path)
	if err := db.Commit(t.Context(), change(ruleOf("a", `{}`))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: got %o, want 600", filepath.Base(name), got)
		}
	}
}

// Content that was deleted or replaced, such as the name of an erased client, does not remain in free pages.
func TestDeletedContentIsNotInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour)
	for i := range 20 {
		s := control.State{Bucket: "b", ID: fmt.Sprint(i), Expires: expires, Body: []byte(`"` + strings.Repeat("noisy ", 2000) + `"`)}
		if err := db.PutState(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			err = db.DeleteState(t.Context(), "b", s.ID)
		} else {
			s.Body = []byte(`"quiet"`)
			err = db.PutState(t.Context(), s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if found := strings.Count(string(data), "noisy"); found > 0 {
			t.Errorf("%s: got the deleted text %d times, want it nowhere", filepath.Base(name), found)
		}
	}
}

func TestNewFileIsOpenedConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			db, err := Open(t.Context(), path)
			if err != nil {
				t.Errorf("open %d: %v", i, err)
				return
			}
			if err := db.Commit(t.Context(), change(ruleOf(fmt.Sprint(i), `{}`))); err != nil {
				t.Errorf("commit %d: %v", i, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if last, _, err := open(t, path).Revision(t.Context(), ""); err != nil || last != 8 {
		t.Errorf("got revision %d, %v; want 8", last, err)
	}
}

// foreign creates a database file of another program.
func foreign(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statements)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestFileOfANewerVersionIsNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	db := open(t, path)
	if err := db.Commit(t.Context(), change(ruleOf("a", `{}`))); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, "PRAGMA user_version = 999")
	db, err := Open(t.Context(), path)
	if !errors.Is(err, control.ErrNewerSchema) || !strings.Contains(err.Error(), "version 999") {
		t.Errorf("got %v, %v; want %v", db, err, control.ErrNewerSchema)
	}
	foreign(t, path, "PRAGMA user_version = 1")
	if last, _, err := open(t, path).Revision(t.Context(), ""); err != nil || last != 1 {
		t.Errorf("afterwards: got revision %d, %v; want 1", last, err)
	}
}

func TestFilesOfOtherProgramsAreRefused(t *testing.T) {
	dir := t.TempDir()
	other, text := filepath.Join(dir, "other.db"), filepath.Join(dir, "text")
	foreign(t, other, "CREATE TABLE mine (x)")
	early := filepath.Join(dir, "early.db")
	foreign(t, early, fmt.Sprintf("CREATE TABLE namespaces (x); PRAGMA user_version = 1; PRAGMA application_id = %d", applicationID))
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database. ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{other: "another program", early: "headgate restore", text: "not an SQLite database", dir: dir} {
		db, err := Open(t.Context(), path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want an error with %q", path, db, err, want)
		}
	}
}

// A file with a maximum size stands for a full disk: SQLite returns the same error.
func TestFullDatabaseRefusesWritesButNotReads(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "rules.db"))
	if err := db.Commit(t.Context(), change(ruleOf("a", `{}`))); err != nil {
		t.Fatal(err)
	}
	var pages int
	if err := db.Write.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		if _, err := db.Write.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages)
	large := change(ruleOf("a", `"small"`), ruleOf("large", `"`+strings.Repeat("x", 500_000)+`"`))
	if err := db.Commit(t.Context(), large); !errors.Is(err, control.ErrFull) {
		t.Errorf("commit: got %v, want %v", err, control.ErrFull)
	}
	if o, err := db.Get(t.Context(), "n", control.KindRule, "a"); err != nil || string(o.Body) != `{}` || o.Revision != 1 {
		t.Errorf("get: got %+v, %v; want it as it was", o, err)
	}
	if last, _, err := db.Revision(t.Context(), "n"); err != nil || last != 1 {
		t.Errorf("revision: got %d, %v; want 1", last, err)
	}
	limit(1 << 20)
	if err := db.Commit(t.Context(), large); err != nil || large.Revision != 2 {
		t.Errorf("with room again: got %v at %d, want 2", err, large.Revision)
	}
}
