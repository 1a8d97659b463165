package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

func TestWritesToARemovedFileAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let an open file be removed")
	}
	for name, remove := range map[string]func(path string) error{
		"directory removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"file removed":      os.Remove,
		"log removed":       func(path string) error { return os.Remove(path + "-wal") },
		"file replaced": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
		},
		"directory swapped": func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", "rules.db")
			db := open(t, path)
			if err := errors.Join(db.Commit(t.Context(), change(ruleOf("a", `{}`))), db.Writable(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			state := control.State{Bucket: "b", ID: "s", Body: []byte(`{}`), Expires: time.Now().Add(time.Hour)}
			_, pruned := db.Prune(t.Context(), time.Now())
			for doing, err := range map[string]error{
				"commit":       db.Commit(t.Context(), change(ruleOf("b", `{}`))),
				"put state":    db.PutState(t.Context(), state),
				"delete state": db.DeleteState(t.Context(), "b", "s"),
				"prune":        pruned,
				"writable":     db.Writable(t.Context()),
			} {
				if !errors.Is(err, control.ErrFileGone) || !errors.Is(err, control.ErrUnwritable) {
					t.Errorf("%s: got %v, want %v", doing, err, control.ErrFileGone)
				}
			}
			if o, err := db.Get(t.Context(), "n", control.KindRule, "a"); err != nil || string(o.Body) != `{}` {
				t.Errorf("reads go on: got %+v, %v", o, err)
			}
			if last, _, err := db.Revision(t.Context(), ""); err != nil || last != 1 {
				t.Errorf("got revision %d, %v; want 1", last, err)
			}
		})
	}
}

func TestRestoredFileIsWritableAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let an open file be moved")
	}
	dir := filepath.Join(t.TempDir(), "data")
	db := open(t, filepath.Join(dir, "rules.db"))
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(t.Context(), change(ruleOf("a", `{}`))); !errors.Is(err, control.ErrFileGone) {
		t.Errorf("moved: got %v, want %v", err, control.ErrFileGone)
	}
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(t.Context(), change(ruleOf("a", `{}`))); err != nil {
		t.Errorf("put back: %v", err)
	}
}

// A read-only connection stands for a read-only disk: SQLite returns the same error.
func TestWritesToAReadOnlyDiskAreUnwritable(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "rules.db"))
	if _, err := db.Write.ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	err := db.Commit(t.Context(), change(ruleOf("a", `{}`)))
	if !errors.Is(err, control.ErrUnwritable) || errors.Is(err, control.ErrFileGone) {
		t.Errorf("got %v, want %v", err, control.ErrUnwritable)
	}
}
