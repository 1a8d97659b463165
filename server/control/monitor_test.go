package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/sqlite"
)

func TestMonitorLogsEachStateOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let an open file be moved")
	}
	dir := filepath.Join(t.TempDir(), "data")
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var book logbook.Book
	m := control.NewMonitor(db, book.Logger())
	commit := func() error {
		return m.Commit(t.Context(), &control.Change{
			Namespace: "n", Base: control.AnyRevision,
			Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.AnyRevision, Body: []byte(`{}`)}},
		})
	}
	check := func(when string, want error, lines int) {
		t.Helper()
		for range 3 {
			if got := commit(); !errors.Is(got, want) {
				t.Errorf("%s: commit: got %v, want %v", when, got, want)
			}
			if got := m.Writable(t.Context()); !errors.Is(got, want) {
				t.Errorf("%s: writable: got %v, want %v", when, got, want)
			}
		}
		if got := strings.Count(book.String(), "\n"); got != lines {
			t.Errorf("%s: got %d lines, want %d:\n%s", when, got, lines, book.String())
		}
	}
	check("at first", nil, 0)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	check("moved", control.ErrFileGone, 1)
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	check("put back", nil, 2)

	conflict := &control.Change{Namespace: "n", Base: 99, Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.AnyRevision}}}
	if err := m.Commit(t.Context(), conflict); !errors.Is(err, control.ErrConflict) {
		t.Errorf("got %v, want %v", err, control.ErrConflict)
	}
	check("after a conflict", nil, 2)
}
