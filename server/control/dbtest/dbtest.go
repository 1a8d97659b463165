// Package dbtest has conformance tests for implementations of control.DB.
//
//	func TestConformance(t *testing.T) {
//		dbtest.Run(t, func(t testing.TB) func() control.DB {
//			path := filepath.Join(t.TempDir(), "rules.db")
//			return func() control.DB { return open(t, path) }
//		})
//	}
//
// The tests use a real database. For concurrency, they open several handles, like several processes. No test depends on
// the speed of the machine. [Bench] has benchmarks.
package dbtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

// New creates an empty database, and returns a function that opens a handle of it. Each handle is independent, as if
// another process had opened the database. The handles are closed when the test ends.
type New func(t testing.TB) (open func() control.DB)

// waitTimeout is how long a test waits for an operation that takes milliseconds on an idle machine.
const waitTimeout = 2 * time.Minute

// Run runs the tests with databases from newDB.
func Run(t *testing.T, newDB New) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T, newDB New)
	}{
		{"CommitAppliesAndFillsInAChange", changeIsApplied},
		{"InvalidChangesAreRefused", invalidChangesAreRefused},
		{"ConflictsChangeNothing", conflictsChangeNothing},
		{"TwoEditorsNeverLoseAnUpdate", twoEditors},
		{"RevisionsHaveNoGapsAndFollowTheOrderOfCommits", noGaps},
		{"ObjectsAreListedInPagesByTheBytesOfTheirIDs", pages},
		{"SearchIgnoresCase", search},
		{"UnusualNamesAreStored", oddNames},
		{"ClientsRoundTrip", clients},
		{"InvalidNamesAreNotFound", noNames},
		{"SnapshotsAreConsistentWithRulesFirst", snapshots},
		{"LogListsChanges", logs},
		{"SinceReturnsChangedObjects", since},
		{"AtReturnsEarlierObjects", atRevisions},
		{"AtAgreesWithAModelOfTheHistory", history},
		{"PruneDeletesUnneededChanges", prune},
		{"WatchYieldsChangesOfAnotherHandle", watchAcrossHandles},
		{"WatchEndsWithTheContextAndWithTheDatabase", watchEnds},
		{"StatesExpire", states},
		{"DumpsAreRestored", dumps},
		{"RecordedDumpsAreRestored", recordedDumps},
		{"BrokenAndLateDumpsAreRefused", brokenDumps},
		{"RestoreReplacesContent", replaces},
		{"WritesAreVisibleToTheNextHandle", reopened},
		{"ThousandsOfRulesInOneChange", manyRules},
		{"ContextsEndCalls", contexts},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, newDB) })
	}
}

// rule returns an operation that creates or replaces a rule if it is at revision base.
func rule(id string, base int64, body string) control.Op {
	return control.Op{Kind: control.KindRule, ID: id, Base: base, Body: []byte(body)}
}

func put(kind control.Kind, id, body string) control.Op {
	return control.Op{Kind: kind, ID: id, Base: control.AnyRevision, Body: []byte(body)}
}

func remove(kind control.Kind, id string) control.Op {
	return control.Op{Kind: kind, ID: id, Base: control.AnyRevision}
}

// commit commits operations with Base Any for the namespace, and returns the change.
func commit(t testing.TB, db control.DB, namespace string, ops ...control.Op) *control.Change {
	t.Helper()
	c := &control.Change{
		Namespace: namespace, Base: control.AnyRevision, Actor: "alice", From: "192.0.2.1", Action: "test",
		Note: "why", Ops: ops,
	}
	if err := db.Commit(t.Context(), c); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return c
}

// get returns a rule that must exist.
func get(t testing.TB, db control.DB, namespace, id string) *control.Object {
	t.Helper()
	o, err := db.Get(t.Context(), namespace, control.KindRule, id)
	if err != nil {
		t.Fatalf("get rule %s: %v", id, err)
	}
	return o
}

// checkGone checks that an object does not exist.
func checkGone(t testing.TB, db control.DB, namespace string, kind control.Kind, id string) {
	t.Helper()
	if o, err := db.Get(t.Context(), namespace, kind, id); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("get %s %s: got %v, %v; want %v", kind, id, o, err, control.ErrNotFound)
	}
}

// brief formats objects as "id=body@revision".
func brief(objects []control.Object) []string {
	list := make([]string, 0, len(objects))
	for _, o := range objects {
		list = append(list, fmt.Sprintf("%s=%s@%d", o.ID, o.Body, o.Revision))
	}
	return list
}

func checkEqual(t testing.TB, name string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", name, got, want)
	}
}

// checkRevision checks the last revision of a namespace, and the last one that nodes receive.
func checkRevision(t testing.TB, db control.DB, namespace string, want, wantForNodes int64) {
	t.Helper()
	last, forNodes, err := db.Revision(t.Context(), namespace)
	if err != nil || last != want || forNodes != wantForNodes {
		t.Errorf("revision of %q: got %d, %d, %v; want %d, %d", namespace, last, forNodes, err, want, wantForNodes)
	}
}

func changeIsApplied(t *testing.T, newDB New) {
	db := newDB(t)()
	checkRevision(t, db, "", 0, 0)
	checkRevision(t, db, "shop", 0, 0)
	before := time.Now().Add(-time.Hour) // the database's clock may differ
	first := commit(t, db, "shop", rule("a", control.Absent, `{"v":1}`), rule("b", control.Absent, `{"v":2}`))
	if first.Revision != 1 || first.Time.Before(before) || first.Time.Location() != time.UTC {
		t.Errorf("got revision %d at %v, want 1 and now in UTC", first.Revision, first.Time)
	}
	if first.Ops[0].Before != nil {
		t.Errorf("before: got %s, want none", first.Ops[0].Before)
	}
	a := get(t, db, "shop", "a")
	if a.Revision != 1 || string(a.Body) != `{"v":1}` || a.By != "alice" || !a.Created.Equal(first.Time) ||
		!a.Updated.Equal(first.Time) ||
		a.Namespace != "shop" || a.Kind != control.KindRule || a.ID != "a" {
		t.Errorf("got %+v", a)
	}
	second := commit(t, db, "shop", rule("a", 1, `{"v":3}`), remove(control.KindRule, "b"),
		put(control.KindToken, "t", `{}`))
	if second.Revision != 2 || string(second.Ops[0].Before) != `{"v":1}` || string(second.Ops[1].Before) != `{"v":2}` ||
		second.Ops[2].Before != nil {
		t.Errorf("got %+v", second)
	}
	a = get(t, db, "shop", "a")
	if a.Revision != 2 || string(a.Body) != `{"v":3}` || !a.Created.Equal(first.Time) || !a.Updated.Equal(second.Time) {
		t.Errorf("got %+v, want it created at %v and updated at %v", a, first.Time, second.Time)
	}
	checkGone(t, db, "shop", control.KindRule, "b")
	checkGone(t, db, "shop", control.KindClient, "a")
	checkGone(t, db, "other", control.KindRule, "a")
	checkRevision(t, db, "shop", 2, 2)
	commit(t, db, "shop", put(control.KindToken, "t", `{"v":2}`))
	checkRevision(t, db, "shop", 3, 2) // nodes do not receive tokens
	checkRevision(t, db, "", 3, 2)
	commit(t, db, "other", put(control.KindClient, "acme", `{}`))
	checkRevision(t, db, "shop", 3, 2)
	checkRevision(t, db, "other", 4, 4)
	checkRevision(t, db, "", 4, 4)
	commit(t, db, "shop", remove(control.KindRule, "a"), remove(control.KindToken, "t"))
	names, err := db.Namespaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "namespaces with objects", names, []string{"other"})
	again := commit(t, db, "shop", rule("a", control.Absent, `{}`))
	if o := get(t, db, "shop", "a"); !o.Created.Equal(again.Time) {
		t.Errorf("rule created again: got Created %v, want %v", o.Created, again.Time)
	}
}

func invalidChangesAreRefused(t *testing.T, newDB New) {
	db := newDB(t)()
	one := []control.Op{rule("a", control.AnyRevision, `{}`)}
	for name, c := range map[string]control.Change{
		"no ops":               {Namespace: "n", Base: control.AnyRevision},
		"no namespace":         {Base: control.AnyRevision, Ops: one},
		"a namespace with NUL": {Namespace: "a\x00b", Base: control.AnyRevision, Ops: one},
		"an unknown kind":      {Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{put("x", "a", `{}`)}},
		"no id": {
			Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{put(control.KindRule, "", `{}`)},
		},
		"an id not in UTF-8": {
			Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{put(control.KindRule, "a\xff", `{}`)},
		},
		"a body not in JSON": {
			Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{put(control.KindRule, "a", `{`)},
		},
		"an object twice":   {Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{one[0], one[0]}},
		"an actor with NUL": {Namespace: "n", Base: control.AnyRevision, Actor: "\x00", Ops: one},
		"a delete of an object that must be absent": {
			Namespace: "n", Base: control.AnyRevision,
			Ops: []control.Op{{Kind: control.KindRule, ID: "a", Base: control.Absent}},
		},
	} {
		if err := db.Commit(t.Context(), &c); !errors.Is(err, control.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, control.ErrInvalid)
		}
	}
	checkRevision(t, db, "", 0, 0)
}

func conflictsChangeNothing(t *testing.T, newDB New) {
	db := newDB(t)()
	commit(t, db, "n", rule("a", control.Absent, `{"v":1}`), rule("b", control.Absent, `{"v":1}`))
	commit(t, db, "n", rule("b", 1, `{"v":2}`))
	for name, tt := range map[string]struct {
		base int64
		ops  []control.Op
		want control.Conflict
	}{
		"an older revision": {
			control.AnyRevision,
			[]control.Op{rule("a", 1, `{"v":9}`), rule("b", 1, `{"v":9}`)},
			control.Conflict{Kind: control.KindRule, ID: "b", Want: 1, Have: 2},
		},
		"it exists already": {
			control.AnyRevision,
			[]control.Op{rule("c", control.Absent, `{}`), rule("a", control.Absent, `{}`)},
			control.Conflict{Kind: control.KindRule, ID: "a", Want: control.Absent, Have: 1},
		},
		"it does not exist": {
			control.AnyRevision,
			[]control.Op{rule("a", control.AnyRevision, `{"v":9}`), rule("c", 1, `{}`)},
			control.Conflict{Kind: control.KindRule, ID: "c", Want: 1},
		},
		"nothing to delete": {
			control.AnyRevision,
			[]control.Op{rule("a", control.AnyRevision, `{"v":9}`), remove(control.KindRule, "c")},
			control.Conflict{Kind: control.KindRule, ID: "c", Want: control.AnyRevision},
		},
		"of another kind": {
			control.AnyRevision,
			[]control.Op{{Kind: control.KindClient, ID: "a", Base: 1}},
			control.Conflict{Kind: control.KindClient, ID: "a", Want: 1},
		},
		"the namespace":   {1, []control.Op{rule("a", 1, `{"v":9}`)}, control.Conflict{Want: 1, Have: 2}},
		"a new namespace": {0, []control.Op{rule("a", 1, `{"v":9}`)}, control.Conflict{Want: 0, Have: 2}},
	} {
		c := control.Change{Namespace: "n", Base: tt.base, Ops: tt.ops}
		err := db.Commit(t.Context(), &c)
		tt.want.Namespace = "n"
		var got *control.Conflict
		if !errors.As(err, &got) || *got != tt.want || !errors.Is(err, control.ErrConflict) {
			t.Errorf("%s: got %v, want %v", name, err, &tt.want)
		}
		if c.Revision != 0 {
			t.Errorf("%s: revision %d was filled in", name, c.Revision)
		}
	}
	checkRevision(t, db, "n", 2, 2)
	list, err := db.List(t.Context(), control.Query{Namespace: "n", Kind: control.KindRule, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "rules", brief(list), []string{`a={"v":1}@1`, `b={"v":2}@2`})
	c := control.Change{Namespace: "n", Base: 2, Ops: []control.Op{rule("a", 1, `{"v":3}`)}}
	if err := db.Commit(t.Context(), &c); err != nil || c.Revision != 3 {
		t.Errorf("with current base revisions: got %v at %d", err, c.Revision)
	}
	other := control.Change{Namespace: "new", Base: 0, Ops: []control.Op{rule("a", control.Absent, `{}`)}}
	if err := db.Commit(t.Context(), &other); err != nil {
		t.Errorf("a new namespace with base 0: %v", err)
	}
}

func reopened(t *testing.T, newDB New) {
	open := newDB(t)
	db := open()
	commit(t, db, "n", rule("a", control.Absent, `{"v":1}`))
	if db.Name() == "" {
		t.Error("Name returned an empty string")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	if o := get(t, db, "n", "a"); string(o.Body) != `{"v":1}` {
		t.Errorf("got %s", o.Body)
	}
	checkRevision(t, db, "n", 1, 1)
}

func contexts(t *testing.T, newDB New) {
	db := newDB(t)()
	commit(t, db, "n", rule("a", control.Absent, `{"v":1}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{rule("a", 1, `{"v":2}`)}}
	if err := db.Commit(ctx, &c); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: got %v, want %v", err, context.Canceled)
	}
	if _, err := db.List(ctx, control.Query{Namespace: "n", Kind: control.KindRule, Limit: 1}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("list: got %v, want %v", err, context.Canceled)
	}
	if err := db.Dump(ctx, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("dump: got %v, want %v", err, context.Canceled)
	}
	checkRevision(t, db, "n", 1, 1)
}
