package edit_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/sqlite"
)

// openEditor returns an editor of an empty database.
func openEditor(t *testing.T) (*edit.Editor, control.DB) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return edit.NewEditor(edit.Options{
		DB: db, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Committed: func(*control.Change) {},
	}), db
}

// entry returns the log entry of a change.
func entry(action string) *control.Change {
	return &control.Change{Namespace: "shop", Actor: "alice", Action: action, Base: control.AnyRevision}
}

// put creates or replaces the rule "search".
func put(t *testing.T, e *edit.Editor, body string, p edit.Put) (*edit.PutResult, error) {
	t.Helper()
	parsed, err := edit.Parse(control.KindRule, "body.json", []byte(body), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p.Kind, p.ID, p.New = control.KindRule, "search", parsed
	return e.Put(t.Context(), entry("rules.put"), p)
}

const (
	ten    = `{"id":"search","key":["user"],"limits":["10/s"]}`
	twenty = `{"id":"search","key":["user"],"limits":["20/s"]}`
)

func TestPutChecksConditions(t *testing.T) {
	e, _ := openEditor(t)
	first, err := put(t, e, ten, edit.Put{MustCreate: true})
	if err != nil || !first.Created || first.Object.Revision != 1 {
		t.Fatalf("got %+v, %v; want it created at revision 1", first, err)
	}
	var exists *edit.ExistsError
	if _, err := put(t, e, twenty, edit.Put{MustCreate: true}); !errors.As(err, &exists) || exists.Diff == "" {
		t.Errorf("create it again: got %v, want an ExistsError with a difference", err)
	}
	var stale *edit.StaleError
	_, err = put(t, e, twenty, edit.Put{Match: edit.Condition{Given: true, Revisions: []int64{7}}})
	if !errors.As(err, &stale) || stale.Object == nil || stale.Object.Revision != 1 {
		t.Errorf("at another revision: got %v, want a StaleError with the object", err)
	}
	second, err := put(t, e, twenty, edit.Put{Match: edit.Condition{Given: true, Revisions: []int64{1}}})
	if err != nil || second.Created || second.Object.Revision != 2 {
		t.Errorf("at its revision: got %+v, %v; want revision 2", second, err)
	}
	same, err := put(t, e, twenty, edit.Put{})
	if err != nil || same.Object.Revision != 2 {
		t.Errorf("the same again: got %+v, %v; want no new revision", same, err)
	}
}

func TestInvalidNamespacesAreNotCommitted(t *testing.T) {
	e, db := openEditor(t)
	file := edit.File{Name: "rules.yaml", Data: []byte(`
rules: [{ id: search, key: user, limits: 10/s }]
clients: [{ id: acme, rules: [{ id: none, limits: 5/s }] }]
`)}
	var invalid *source.Error
	if _, err := e.ApplyFile(t.Context(), entry("rules.apply"), file, edit.CommitOptions{}); !errors.As(err, &invalid) {
		t.Errorf("limits for a rule that does not exist: got %v, want a source.Error", err)
	}
	if last, _, err := db.Revision(t.Context(), "shop"); err != nil || last != 0 {
		t.Errorf("got revision %d, %v; want 0", last, err)
	}
}

func TestRollbackUndoesLaterChanges(t *testing.T) {
	e, db := openEditor(t)
	for _, body := range []string{ten, twenty} {
		if _, err := put(t, e, body, edit.Put{}); err != nil {
			t.Fatal(err)
		}
	}
	dry, err := e.Rollback(t.Context(), entry("revisions.rollback"), 1, false, edit.CommitOptions{DryRun: true})
	if err != nil || dry.Revision != 2 || len(dry.Diff) != 1 || dry.Diff[0].Action != "update" {
		t.Fatalf("dry run: got %+v, %v; want one update and revision 2", dry, err)
	}
	done, err := e.Rollback(t.Context(), entry("revisions.rollback"), 1, false, edit.CommitOptions{})
	if err != nil || done.Revision != 3 {
		t.Fatalf("got %+v, %v; want revision 3", done, err)
	}
	deltas, err := edit.Compare(t.Context(), db, "shop", 1, 3, control.NodeKinds())
	if err != nil || len(deltas) != 0 {
		t.Errorf("revisions 1 and 3: got %+v, %v; want no difference", deltas, err)
	}
}
