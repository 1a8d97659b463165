package dbtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

// revisions returns the revisions of changes.
func revisions(changes []control.Change) []string {
	list := make([]string, 0, len(changes))
	for _, c := range changes {
		list = append(list, fmt.Sprint(c.Revision))
	}
	return list
}

func logs(t *testing.T, newDB New) {
	db := newDB(t)()
	commit(t, db, "m", rule("a", control.Absent, `1`), rule("b", control.Absent, `1`))     // 1
	commit(t, db, "n", rule("a", control.Absent, `1`))                                     // 2
	commit(t, db, "m", rule("a", 1, `2`))                                                  // 3
	commit(t, db, "m", remove(control.KindRule, "a"), put(control.KindClient, "b", `{}`))  // 4
	commit(t, db, "m", put(control.KindToken, "a", `{"hash":"x"}`))                        // 5
	last := commit(t, db, "m", rule("b", 1, `2`), put(control.KindWebhook, "hook", `"s"`)) // 6
	for _, tt := range []struct {
		name string
		q    control.LogQuery
		want []string
	}{
		{"all", control.LogQuery{Limit: 10}, []string{"1", "2", "3", "4", "5", "6"}},
		{"newest first", control.LogQuery{Newest: true, Limit: 10}, []string{"6", "5", "4", "3", "2", "1"}},
		{"one namespace", control.LogQuery{Namespace: "n", Limit: 10}, []string{"2"}},
		{"an unknown namespace", control.LogQuery{Namespace: "x", Limit: 10}, nil},
		{"after and before", control.LogQuery{After: 1, Before: 5, Limit: 10}, []string{"2", "3", "4"}},
		{
			"newest first, with Before",
			control.LogQuery{Namespace: "m", Before: 5, Newest: true, Limit: 2},
			[]string{"4", "3"},
		},
		{"one page with After", control.LogQuery{Namespace: "m", After: 1, Limit: 2}, []string{"3", "4"}},
		{"one rule", control.LogQuery{Namespace: "m", Kind: control.KindRule, ID: "a", Limit: 10}, []string{"1", "3", "4"}},
		{
			"one rule, newest first",
			control.LogQuery{Namespace: "m", Kind: control.KindRule, ID: "a", Newest: true, Limit: 1},
			[]string{"4"},
		},
		{"one rule, with After and Before", control.LogQuery{
			Namespace: "m", Kind: control.KindRule, ID: "a", After: 1, Before: 4,
			Limit: 10,
		}, []string{"3"}},
		{
			"rules with the same ID in all namespaces",
			control.LogQuery{Kind: control.KindRule, ID: "a", Limit: 10},
			[]string{"1", "2", "3", "4"},
		},
		{"one kind", control.LogQuery{Kind: control.KindClient, Limit: 10}, []string{"4"}},
		{
			"one kind in one namespace",
			control.LogQuery{Namespace: "m", Kind: control.KindRule, Limit: 10},
			[]string{"1", "3", "4", "6"},
		},
		{"one ID, all kinds", control.LogQuery{Namespace: "m", ID: "b", Limit: 10}, []string{"1", "4", "6"}},
		{"one ID, newest first", control.LogQuery{ID: "a", Newest: true, Limit: 2}, []string{"5", "4"}},
	} {
		got, err := db.Log(t.Context(), tt.q)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		checkEqual(t, tt.name, revisions(got), tt.want)
	}
	got, err := db.Log(t.Context(), control.LogQuery{After: 5, Limit: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	c := got[0]
	if c.Revision != 6 || c.Namespace != "m" || !c.Time.Equal(last.Time) || c.Actor != "alice" || c.From != "192.0.2.1" ||
		c.Action != "test" || c.Note != "why" {
		t.Errorf("got %+v, want %+v", c, last)
	}
	for revision, want := range map[int64]time.Time{6: last.Time, 0: {}, 7: {}} {
		if got, err := db.Committed(t.Context(), revision); err != nil || !got.Equal(want) {
			t.Errorf("revision %d was committed at %v, %v; want %v", revision, got, err, want)
		}
	}
	if len(c.Ops) != 2 || c.Ops[0].ID != "b" || string(c.Ops[0].Body) != `2` || string(c.Ops[0].Before) != `1` ||
		c.Ops[0].Base != 1 ||
		c.Ops[1].Kind != control.KindWebhook || string(c.Ops[1].Body) != `"s"` || c.Ops[1].Before != nil ||
		c.Ops[1].Base != control.Absent {
		t.Errorf("ops: got %+v", c.Ops)
	}
	got, err = db.Log(t.Context(), control.LogQuery{After: 3, Limit: 1})
	if err != nil || len(got) != 1 || got[0].Ops[0].Body != nil || string(got[0].Ops[0].Before) != `2` {
		t.Errorf("a delete: got %+v, %v", got, err)
	}
}

func since(t *testing.T, newDB New) {
	db := newDB(t)()
	// since returns the result of Since as text: the changed objects, and the revision of the content.
	since := func(after int64, limit int) (string, error) {
		t.Helper()
		changed, revision, err := db.Since(t.Context(), "n", after, limit)
		var list []string
		for _, o := range changed {
			if o.Namespace != "n" {
				t.Errorf("got an object of namespace %q", o.Namespace)
			}
			body := string(o.Body)
			if o.Body == nil {
				body = "gone"
			}
			list = append(list, fmt.Sprintf("%s %s=%s@%d", o.Kind, o.ID, body, o.Revision))
		}
		slices.Sort(list)
		return fmt.Sprintf("%q to %d", list, revision), err
	}
	if got, err := since(0, 10); err != nil || got != `[] to 0` {
		t.Errorf("empty database: got %s, %v", got, err)
	}
	// 1
	commit(t, db, "n", rule("a", control.Absent, `1`), rule("b", control.Absent, `1`), put(control.KindClient, "a", `1`))
	// 2
	commit(t, db, "n", put(control.KindToken, "t", `1`))
	// 3
	commit(t, db, "other", rule("a", control.Absent, `1`))
	// 4
	commit(t, db, "n", rule("a", 1, `2`))
	// 5
	commit(t, db, "n", remove(control.KindRule, "b"), rule("a", 4, `3`))
	// 6
	commit(t, db, "n", put(control.KindOverride, "o", `1`), rule("c", control.Absent, `1`))
	// 7
	commit(t, db, "n", remove(control.KindRule, "c"), remove(control.KindToken, "t"))
	for after, want := range map[int64]string{
		0: `["client a=1@1" "override o=1@6" "rule a=3@5" "rule b=gone@5" "rule c=gone@7"] to 7`,
		1: `["override o=1@6" "rule a=3@5" "rule b=gone@5" "rule c=gone@7"] to 7`,
		5: `["override o=1@6" "rule c=gone@7"] to 7`,
		6: `["rule c=gone@7"] to 7`,
		7: `[] to 7`,
	} {
		if got, err := since(after, 10); err != nil || got != want {
			t.Errorf("after %d: got %s, %v; want %s", after, got, err, want)
		}
	}
	if _, err := since(0, 4); !errors.Is(err, control.ErrPruned) {
		t.Errorf("five changed objects with limit 4: got %v, want %v", err, control.ErrPruned)
	}
	if got, err := since(0, 5); err != nil {
		t.Errorf("five changed objects with limit 5: got %s, %v", got, err)
	}
	if _, err := since(8, 10); !errors.Is(err, control.ErrPruned) {
		t.Errorf("after a future revision: got %v, want %v", err, control.ErrPruned)
	}
	commit(t, db, "n", rule("b", control.Absent, `2`)) // 8
	if got, err := since(5, 10); err != nil || got != `["override o=1@6" "rule b=2@8" "rule c=gone@7"] to 8` {
		t.Errorf("a rule that was deleted and created again: got %s, %v", got, err)
	}
}

func atRevisions(t *testing.T, newDB New) {
	db := newDB(t)()
	first := commit(t, db, "n", rule("a", control.Absent, `1`), rule("b", control.Absent, `1`))
	commit(t, db, "n", rule("a", 1, `2`), put(control.KindClient, "a", `1`))
	commit(t, db, "n", remove(control.KindRule, "b"), rule("c", control.Absent, `1`))
	commit(t, db, "other", rule("a", control.Absent, `9`))
	commit(t, db, "n", rule("b", control.Absent, `5`), rule("a", 2, `5`))
	for at, want := range map[int64][]string{
		0: {}, 1: {"a=1@1", "b=1@1"}, 2: {"a=2@2", "b=1@1"}, 3: {"a=2@2", "c=1@3"}, 4: {"a=2@2", "c=1@3"}, 5: {
			"a=5@5",
			"b=5@5", "c=1@3",
		}, 99: {"a=5@5", "b=5@5", "c=1@3"},
	} {
		got, err := db.At(t.Context(), "n", control.KindRule, at)
		if err != nil {
			t.Errorf("at %d: %v", at, err)
		}
		checkEqual(t, fmt.Sprintf("at %d", at), brief(got), want)
	}
	old, err := db.At(t.Context(), "n", control.KindRule, 2)
	if err != nil {
		t.Fatal(err)
	}
	b := old[1]
	if !b.Created.Equal(first.Time) || !b.Updated.Equal(first.Time) || b.By != "alice" || b.Namespace != "n" ||
		b.Kind != control.KindRule {
		t.Errorf("got %+v, want the rule as created at %v", b, first.Time)
	}
}

// history makes random changes and compares the results of At and Since with a simple model of each revision.
func history(t *testing.T, newDB New) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	db := newDB(t)()
	type state = map[string]string
	now := map[control.Kind]state{control.KindRule: {}, control.KindClient: {}}
	past := []map[control.Kind]state{{control.KindRule: {}, control.KindClient: {}}}
	for v := range 60 {
		c := control.Change{Namespace: "n", Base: control.AnyRevision}
		touched := map[string]bool{}
		for range 1 + random.IntN(4) {
			kind := []control.Kind{control.KindRule, control.KindClient}[random.IntN(2)]
			id := fmt.Sprint(random.IntN(8))
			if touched[string(kind)+id] {
				continue
			}
			touched[string(kind)+id] = true
			if _, exists := now[kind][id]; exists && random.IntN(3) == 0 {
				delete(now[kind], id)
				c.Ops = append(c.Ops, remove(kind, id))
				continue
			}
			now[kind][id] = fmt.Sprint(v)
			c.Ops = append(c.Ops, put(kind, id, fmt.Sprint(v)))
		}
		if err := db.Commit(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		past = append(past, map[control.Kind]state{
			control.KindRule:   maps.Clone(now[control.KindRule]),
			control.KindClient: maps.Clone(now[control.KindClient]),
		})
	}
	present := past[len(past)-1]
	for revision, then := range past {
		for kind, want := range then {
			list, err := db.At(t.Context(), "n", kind, int64(revision))
			if err != nil {
				t.Fatal(err)
			}
			got := state{}
			for _, o := range list {
				got[o.ID] = string(o.Body)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s at %d: got %v, want %v", kind, revision, got, want)
			}
		}
		// The earlier state, with the changes since, is the current state.
		changed, _, err := db.Since(t.Context(), "n", int64(revision), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range changed {
			if o.Body == nil {
				delete(then[o.Kind], o.ID)
			} else {
				then[o.Kind][o.ID] = string(o.Body)
			}
		}
		for kind := range then {
			if !maps.Equal(then[kind], present[kind]) {
				t.Errorf("%s at %d with the changes since: got %v, want %v", kind, revision, then[kind], present[kind])
			}
		}
	}
}

func prune(t *testing.T, newDB New) {
	db := newDB(t)()
	commit(t, db, "n", rule("a", control.Absent, `1`), rule("b", control.Absent, `1`)) // 1
	commit(t, db, "n", rule("a", 1, `2`))                                              // 2
	commit(t, db, "n", rule("c", control.Absent, `1`))                                 // 3
	commit(t, db, "n", rule("a", 2, `3`), remove(control.KindRule, "c"))               // 4
	commit(t, db, "m", rule("x", control.Absent, `1`))                                 // 5
	commit(t, db, "m", remove(control.KindRule, "x"))                                  // 6
	if n, err := db.Prune(t.Context(), time.Now().Add(-24*time.Hour)); err != nil || n != 0 {
		t.Errorf("changes newer than the time: got %d, %v; want 0", n, err)
	}
	// 1 is the latest change of b, and 4 of a. 2, 3, 5 and 6 are not the latest change of any existing object.
	if n, err := db.Prune(t.Context(), time.Now().Add(24*time.Hour)); err != nil || n != 4 {
		t.Errorf("got %d, %v; want 4", n, err)
	}
	changes, err := db.Log(t.Context(), control.LogQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "the log", revisions(changes), []string{"1", "4"})
	changes, err = db.Log(t.Context(), control.LogQuery{Namespace: "n", Kind: control.KindRule, ID: "a", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "the log of a", revisions(changes), []string{"1", "4"})
	if got, err := db.Committed(t.Context(), 6); err != nil || !got.IsZero() {
		t.Errorf("commit time of a pruned revision: got %v, %v; want zero", got, err)
	}
	checkRevision(t, db, "n", 4, 4)
	checkRevision(t, db, "m", 6, 6)
	checkRevision(t, db, "", 6, 6)
	for _, at := range []int64{0, 1, 2} {
		if _, err := db.At(t.Context(), "n", control.KindRule, at); !errors.Is(err, control.ErrPruned) {
			t.Errorf("at %d: got %v, want %v", at, err, control.ErrPruned)
		}
		if _, _, err := db.Since(t.Context(), "n", at, 100); !errors.Is(err, control.ErrPruned) {
			t.Errorf("since %d: got %v, want %v", at, err, control.ErrPruned)
		}
	}
	old, err := db.At(t.Context(), "n", control.KindRule, 3)
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "at 3", brief(old), []string{"a=2@2", "b=1@1", "c=1@3"})
	changed, at, err := db.Since(t.Context(), "n", 3, 100)
	if err != nil || at != 4 || len(changed) != 2 {
		t.Errorf("since 3: got %q to %d, %v", brief(changed), at, err)
	}
	if next := commit(t, db, "m", rule("x", control.Absent, `2`)); next.Revision != 7 {
		t.Errorf("the next revision: got %d, want 7", next.Revision)
	}
	if n, err := db.Prune(t.Context(), time.Now().Add(24*time.Hour)); err != nil || n != 0 {
		t.Errorf("second Prune: got %d, %v; want 0", n, err)
	}
}
