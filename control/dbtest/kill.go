package dbtest

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/headgate/headgate/control"
)

// Write commits changes one after the other, each of which sets several objects to the same value, until one fails or
// ctx ends. It calls acknowledged with the revision of each committed change.
func Write(ctx context.Context, db control.DB, acknowledged func(revision int64)) error {
	last, _, err := db.Revision(ctx, "")
	if err != nil {
		return err
	}
	for v := last + 1; ; v++ {
		body := fmt.Sprint(v)
		c := control.Change{Namespace: "n", Base: last, Actor: "writer", Action: "write", Note: body}
		for i := range 10 {
			c.Ops = append(c.Ops, put(control.KindRule, fmt.Sprintf("r%d", i), body))
		}
		// One object is created and deleted, and one is new each time.
		if _, err := db.Get(ctx, "n", control.KindClient, "guest"); err == nil {
			c.Ops = append(c.Ops, remove(control.KindClient, "guest"))
		} else {
			c.Ops = append(c.Ops, put(control.KindClient, "guest", body))
		}
		c.Ops = append(c.Ops, put(control.KindToken, "t"+body, body))
		if err := db.Commit(ctx, &c); err != nil {
			return err
		}
		last = c.Revision
		acknowledged(last)
	}
}

// An Audit checks the changes of Write, again and again. The zero Audit is for an empty database.
type Audit struct {
	seen int64             // up to where the log was checked
	kept map[string]string // the objects by the log, as "kind id": "body@revision"
}

// Check checks that a database that was stopped at some moment has every change completely or not at all, that no
// acknowledged change is missing, and that the log explains the objects. It returns the number of changes that were
// not acknowledged but exist.
func (a *Audit) Check(t testing.TB, db control.DB, acknowledged int64) int {
	t.Helper()
	last, _, err := db.Revision(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if last < acknowledged {
		t.Fatalf("the database is at revision %d, and %d was acknowledged", last, acknowledged)
	}
	if a.kept == nil {
		a.kept = map[string]string{}
	}
	for a.seen < last {
		changes, err := db.Log(t.Context(), control.LogQuery{After: a.seen, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 {
			t.Fatalf("the database is at revision %d, and the log ends at %d", last, a.seen)
		}
		for i := range changes {
			a.take(t, &changes[i])
		}
	}
	if a.seen != last {
		t.Fatalf("the database is at revision %d, and the log goes up to %d", last, a.seen)
	}
	found := map[string]string{}
	values := map[string]bool{}
	for _, kind := range control.Kinds() {
		for q := (control.Query{Namespace: "n", Kind: kind, Limit: 1000}); ; {
			page, err := db.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page {
				found[string(kind)+" "+o.ID] = fmt.Sprintf("%s@%d", o.Body, o.Revision)
				if kind == control.KindRule {
					values[string(o.Body)] = true
				}
			}
			if len(page) < q.Limit {
				break
			}
			q.AfterID = page[len(page)-1].ID
		}
	}
	if !maps.Equal(found, a.kept) {
		t.Errorf("the objects are not what the log has made them:\n got %v\nwant %v", found, a.kept)
	}
	if last > 0 && len(values) != 1 {
		t.Errorf("half a change: the rules have the values %v", values)
	}
	return int(last - acknowledged)
}

// take applies one change.
func (a *Audit) take(t testing.TB, c *control.Change) {
	t.Helper()
	if c.Revision != a.seen+1 || len(c.Ops) != 12 || c.Note == "" {
		t.Fatalf("after revision %d comes %d with %d parts, want %d with 12", a.seen, c.Revision, len(c.Ops), a.seen+1)
	}
	a.seen = c.Revision
	for i := range c.Ops {
		op := &c.Ops[i]
		name := string(op.Kind) + " " + op.ID
		before := ""
		if op.Before != nil {
			before = fmt.Sprintf("%s@%d", op.Before, op.Base)
		}
		if before != a.kept[name] {
			t.Errorf("revision %d: %s was %q by the log, want %q", c.Revision, name, before, a.kept[name])
		}
		if op.Body == nil {
			delete(a.kept, name)
		} else {
			a.kept[name] = fmt.Sprintf("%s@%d", op.Body, c.Revision)
		}
	}
}
