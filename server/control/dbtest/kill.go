package dbtest

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/headgate/headgate/server/control"
)

// Write commits one change after another until a commit fails or ctx ends. Each change sets several objects to the same
// value. Write calls acknowledged with the revision of each committed change.
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
		// The client is created and deleted in turn, and each change creates another token.
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

// An Audit checks the changes that Write commits. It can check a database after each of several restarts. The zero
// Audit is for a database that was empty when Write started.
type Audit struct {
	checked int64             // the last revision of the log that was checked
	objects map[string]string // the objects at this revision; keys are "kind id", values "body@revision"
}

// Check checks a database whose server or writer was killed. Each change must be stored completely or not at all, no
// acknowledged change may be missing, and the objects must match the log. Check returns the number of committed changes
// that were not acknowledged.
func (a *Audit) Check(t testing.TB, db control.DB, acknowledged int64) int {
	t.Helper()
	last, _, err := db.Revision(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if last < acknowledged {
		t.Fatalf("the database is at revision %d, and %d was acknowledged", last, acknowledged)
	}
	if a.objects == nil {
		a.objects = map[string]string{}
	}
	for a.checked < last {
		changes, err := db.Log(t.Context(), control.LogQuery{After: a.checked, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 {
			t.Fatalf("the database is at revision %d, and the log ends at %d", last, a.checked)
		}
		for i := range changes {
			a.apply(t, &changes[i])
		}
	}
	if a.checked != last {
		t.Fatalf("the database is at revision %d, and the log goes up to %d", last, a.checked)
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
	if !maps.Equal(found, a.objects) {
		t.Errorf("the objects do not match the log:\n got %v\nwant %v", found, a.objects)
	}
	if last > 0 && len(values) != 1 {
		t.Errorf("a change is incomplete: the rules have the values %v", values)
	}
	return int(last - acknowledged)
}

// apply applies one change of the log to a.objects.
func (a *Audit) apply(t testing.TB, c *control.Change) {
	t.Helper()
	if c.Revision != a.checked+1 || len(c.Ops) != 12 || c.Note == "" {
		t.Fatalf("after revision %d: got revision %d with %d ops, want %d with 12", a.checked, c.Revision, len(c.Ops),
			a.checked+1)
	}
	a.checked = c.Revision
	for i := range c.Ops {
		op := &c.Ops[i]
		name := string(op.Kind) + " " + op.ID
		before := ""
		if op.Before != nil {
			before = fmt.Sprintf("%s@%d", op.Before, op.Base)
		}
		if before != a.objects[name] {
			t.Errorf("revision %d: %s before the change: got %q, want %q", c.Revision, name, before, a.objects[name])
		}
		if op.Body == nil {
			delete(a.objects, name)
		} else {
			a.objects[name] = fmt.Sprintf("%s@%d", op.Body, c.Revision)
		}
	}
}
