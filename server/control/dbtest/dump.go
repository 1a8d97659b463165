package dbtest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/dump"
)

// fill creates objects of all kinds, a history with pruned changes, and a state.
func fill(t testing.TB, db control.DB) {
	commit(t, db, "n", rule("a", control.Absent, `{"v":"<&>'"}`), rule("b", control.Absent, `1`),
		put(control.KindToken, "t", `{"hash":"x"}`))
	commit(t, db, "m'; --", put(control.KindClient, "日本", `{"v":1}`), put(control.KindWebhook, "w", `null`))
	for v := range 5 {
		commit(t, db, "n", put(control.KindRule, "a", fmt.Sprint(v)), put(control.KindOverride, "o", fmt.Sprint(v)))
	}
	commit(t, db, "n", remove(control.KindRule, "b"))
	if _, err := db.Prune(t.Context(), time.Now().Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	commit(t, db, "n", rule("b", control.Absent, `2`), remove(control.KindOverride, "o"))
	commit(t, db, "n", rule("b", control.AnyRevision, `3`))
	err := db.PutState(t.Context(), control.State{
		Bucket: "node", ID: "x", Body: []byte(`{"v":1}`),
		Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// SameDatabase checks that two databases give the same results to every query.
func SameDatabase(t testing.TB, got, want control.DB) {
	t.Helper()
	compare := func(name string, query func(db control.DB) (any, error)) any {
		t.Helper()
		a, errA := query(got)
		b, errB := query(want)
		if !reflect.DeepEqual(a, b) || errors.Is(errA, control.ErrPruned) != errors.Is(errB, control.ErrPruned) ||
			(errA == nil) != (errB == nil) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v, %v", name, a, errA, b, errB)
		}
		return b
	}
	ctx := t.Context()
	names := compare("namespaces", func(db control.DB) (any, error) { return db.Namespaces(ctx) }).([]string)
	var last int64
	for _, namespace := range append(names, "") {
		compare("revision of "+namespace, func(db control.DB) (any, error) {
			l, n, err := db.Revision(ctx, namespace)
			last = max(l, last)
			return [2]int64{l, n}, err
		})
	}
	for _, kind := range control.Kinds() {
		compare("all of "+string(kind),
			func(db control.DB) (any, error) { return db.List(ctx, control.Query{Kind: kind, Limit: 1000}) })
		for _, namespace := range names {
			for r := range last + 1 {
				compare(fmt.Sprintf("%s of %s at %d", kind, namespace, r),
					func(db control.DB) (any, error) { return db.At(ctx, namespace, kind, r) })
			}
		}
	}
	for _, namespace := range names {
		for r := range last + 2 {
			compare(fmt.Sprintf("%s since %d", namespace, r), func(db control.DB) (any, error) {
				list, at, err := db.Since(ctx, namespace, r, 1000)
				all := map[string]control.Object{}
				for _, o := range list {
					all[string(o.Kind)+" "+o.ID] = o
				}
				return []any{all, at}, err
			})
		}
	}
	for r := range last + 2 {
		compare(fmt.Sprintf("when %d was committed", r), func(db control.DB) (any, error) { return db.Committed(ctx, r) })
	}
	compare("log", func(db control.DB) (any, error) { return db.Log(ctx, control.LogQuery{Limit: 1000}) })
	compare("log of a", func(db control.DB) (any, error) {
		return db.Log(ctx, control.LogQuery{Kind: control.KindRule, ID: "a", Limit: 1000, Newest: true})
	})
	compare("states", func(db control.DB) (any, error) { return db.States(ctx, "node", 1000) })
}

func dumps(t *testing.T, newDB New) {
	db := newDB(t)()
	fill(t, db)
	Move(t, db, newDB(t)())
}

// Move checks that a dump of one database can be restored unchanged in an empty database, which may be of another type,
// and that the revisions continue there.
func Move(t testing.TB, from, to control.DB) {
	t.Helper()
	if last, _, err := from.Revision(t.Context(), ""); err != nil {
		t.Fatal(err)
	} else if last == 0 {
		fill(t, from)
	}
	var first, second bytes.Buffer
	if err := from.Dump(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	if err := to.Restore(t.Context(), bytes.NewReader(first.Bytes()), control.Absent); err != nil {
		t.Fatal(err)
	}
	SameDatabase(t, to, from)
	if err := to.Dump(t.Context(), &second); err != nil {
		t.Fatal(err)
	}
	// The first line has the time, and the last line the checksum, so they differ.
	inner := func(b []byte) string {
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		return strings.Join(lines[1:len(lines)-1], "\n")
	}
	if a, b := inner(first.Bytes()), inner(second.Bytes()); a != b {
		t.Errorf("dump of the restored database:\n got %s\nwant %s", b, a)
	}
	last, _, err := to.Revision(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if c := commit(t, to, "n", put(control.KindRule, "a", `"after"`)); c.Revision != last+1 {
		t.Errorf("the next revision: got %d, want %d", c.Revision, last+1)
	}
	if o := get(t, to, "n", "a"); o.Revision != last+1 {
		t.Errorf("got %+v", o)
	}
}

// replaces checks that Restore replaces all content, and only at the expected revision.
func replaces(t *testing.T, newDB New) {
	db, to := newDB(t)(), newDB(t)()
	fill(t, db)
	var whole bytes.Buffer
	if err := db.Dump(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	commit(t, to, "elsewhere", rule("old", control.Absent, `1`), put(control.KindClient, "old", `1`))
	commit(t, to, "n", rule("a", control.Absent, `"old"`), rule("old", control.Absent, `1`),
		put(control.KindWebhook, "w", `1`))
	err := to.PutState(t.Context(), control.State{
		Bucket: "node", ID: "old", Body: []byte(`1`),
		Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []int64{control.Absent, 1, 3} {
		if err := to.Restore(t.Context(), bytes.NewReader(whole.Bytes()), base); !errors.Is(err, control.ErrNotEmpty) {
			t.Errorf("base %d for a database at revision 2: got %v, want %v", base, err, control.ErrNotEmpty)
		}
	}
	if err := to.Restore(t.Context(), strings.NewReader(whole.String()[:whole.Len()/2]), control.AnyRevision); err == nil {
		t.Error("half a dump was restored")
	}
	checkRevision(t, to, "", 2, 2)
	if o := get(t, to, "elsewhere", "old"); o.Revision != 1 {
		t.Errorf("after refused restores: got %+v", o)
	}
	if err := to.Restore(t.Context(), bytes.NewReader(whole.Bytes()), 2); err != nil {
		t.Fatal(err)
	}
	SameDatabase(t, to, db)
	commit(t, to, "elsewhere", rule("new", control.Absent, `1`))
	if err := to.Restore(t.Context(), bytes.NewReader(whole.Bytes()), control.AnyRevision); err != nil {
		t.Fatal(err)
	}
	SameDatabase(t, to, db)
}

// recordedDumps checks that a dump to which an event was added is restored as if the event had been committed after the
// other changes. In the second round, there is an earlier event.
func recordedDumps(t *testing.T, newDB New) {
	db := newDB(t)()
	fill(t, db)
	const id, body = "restore", `{"round":%d}`
	for round := range 2 {
		var whole bytes.Buffer
		if err := db.Dump(t.Context(), &whole); err != nil {
			t.Fatal(err)
		}
		last, nodes, err := db.Revision(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().Truncate(time.Microsecond).UTC()
		recorded, err := dump.Record(&whole, dump.Event{
			Namespace: "_system", ID: id, Actor: "alice", From: "192.0.2.1", Time: now,
			Body: func(at int64) ([]byte, error) {
				if at != last {
					t.Errorf("round %d: the backup is at %d, want %d", round, at, last)
				}
				return fmt.Appendf(nil, body, round), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		to := newDB(t)()
		if err := to.Restore(t.Context(), recorded, control.Absent); err != nil {
			t.Fatal(err)
		}
		checkRevision(t, to, "", last+1, nodes)
		checkRevision(t, to, "_system", last+1, 0)
		log, err := to.Log(t.Context(), control.LogQuery{Newest: true, Limit: 1})
		if err != nil || len(log) != 1 {
			t.Fatalf("round %d: got %+v, %v", round, log, err)
		}
		c := log[0]
		if c.Revision != last+1 || c.Namespace != "_system" || !c.Time.Equal(now) || c.Actor != "alice" ||
			c.From != "192.0.2.1" || c.Action != id || len(c.Ops) != 1 {
			t.Fatalf("round %d: got %+v", round, c)
		}
		op, before := c.Ops[0], ""
		if round > 0 {
			before = fmt.Sprintf(body, round-1)
		}
		if op.Kind != control.KindEvent || op.ID != id || string(op.Body) != fmt.Sprintf(body, round) ||
			string(op.Before) != before {
			t.Errorf("round %d: got %s %s, %s after %q, want %q before", round, op.Kind, op.ID, op.Body, op.Before, before)
		}
		o, err := to.Get(t.Context(), "_system", control.KindEvent, id)
		if err != nil || o.Revision != last+1 || string(o.Body) != fmt.Sprintf(body, round) || o.By != "alice" {
			t.Errorf("round %d: got %+v, %v", round, o, err)
		}
		db = to
	}
	Move(t, db, newDB(t)())
}

func brokenDumps(t *testing.T, newDB New) {
	db := newDB(t)()
	fill(t, db)
	var whole bytes.Buffer
	if err := db.Dump(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	if err := db.Restore(t.Context(), bytes.NewReader(whole.Bytes()), control.Absent); !errors.Is(err,
		control.ErrNotEmpty) {
		t.Errorf("into a database that is not empty: got %v, want %v", err, control.ErrNotEmpty)
	}
	lines := strings.SplitAfter(whole.String(), "\n")
	empty := newDB(t)()
	for name, text := range map[string]string{
		"nothing":          "",
		"something else":   "hello\n",
		"cut off":          strings.Join(lines[:len(lines)-2], ""),
		"a line was lost":  strings.Join(append(append([]string(nil), lines[:3]...), lines[4:]...), ""),
		"a line was added": strings.Join(append(append([]string(nil), lines[:3]...), lines[2:]...), ""),
		"changed":          strings.Replace(whole.String(), "alice", "mallory", 1),
		"half a line":      whole.String()[:whole.Len()/2],
	} {
		if err := empty.Restore(t.Context(), strings.NewReader(text), control.Absent); err == nil {
			t.Errorf("%s: restored, want an error", name)
		}
		checkRevision(t, empty, "", 0, 0)
		if names, err := empty.Namespaces(t.Context()); err != nil || len(names) != 0 {
			t.Errorf("%s: got namespaces %q, %v", name, names, err)
		}
	}
	if err := empty.Restore(t.Context(),
		strings.NewReader(strings.Replace(whole.String(), `_backup":1`, `_backup":99`, 1)), control.Absent); !errors.Is(
		err, control.ErrNewerSchema) {
		t.Errorf("a newer format: got %v, want %v", err, control.ErrNewerSchema)
	}
	if err := empty.Restore(t.Context(), bytes.NewReader(whole.Bytes()), control.Absent); err != nil {
		t.Errorf("a valid dump after the invalid ones: %v", err)
	}
	SameDatabase(t, empty, db)
}
