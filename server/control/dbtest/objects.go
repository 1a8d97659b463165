package dbtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/control"
)

func pages(t *testing.T, newDB New) {
	db := newDB(t)()
	ids := []string{"a", "B", "b", "a-1", "a.1", "a/1", "ä", "Z", "z", "10", "9", "日本", "~", "a b"}
	var ops []control.Op
	for _, id := range ids {
		ops = append(ops, put(control.KindRule, id, `{}`))
	}
	commit(t, db, "m", ops...)
	commit(t, db, "n", ops...)
	commit(t, db, "m", put(control.KindClient, "c", `{}`))
	slices.Sort(ids)
	for _, limit := range []int{1, 3, len(ids), 100} {
		var got []string
		q := control.Query{Namespace: "n", Kind: control.KindRule, Limit: limit}
		for {
			page, err := db.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Fatalf("got a page of %d objects, want at most %d", len(page), limit)
			}
			if len(page) == 0 {
				break
			}
			for _, o := range page {
				got = append(got, o.ID)
			}
			q.AfterNamespace, q.AfterID = "n", page[len(page)-1].ID
		}
		checkEqual(t, fmt.Sprintf("pages of %d", limit), got, ids)
	}
	var got, want []string
	q := control.Query{Kind: control.KindRule, Limit: 5}
	for {
		page, err := db.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, o := range page {
			got = append(got, o.Namespace+" "+o.ID)
			q.AfterNamespace, q.AfterID = o.Namespace, o.ID
		}
	}
	for _, n := range []string{"m", "n"} {
		for _, id := range ids {
			want = append(want, n+" "+id)
		}
	}
	checkEqual(t, "all namespaces", got, want)
	for _, tt := range []struct {
		q    control.Query
		want int
	}{
		{control.Query{Kind: control.KindRule}, 2 * len(ids)},
		{control.Query{Kind: control.KindRule, Namespace: "n"}, len(ids)},
		{control.Query{Kind: control.KindRule, Namespace: "n", AfterID: "a"}, len(ids) - slices.Index(ids, "a") - 1},
		{control.Query{Kind: control.KindClient}, 1},
		{control.Query{Kind: control.KindClient, Namespace: "n"}, 0},
	} {
		if n, err := db.Count(t.Context(), tt.q); err != nil || n != tt.want {
			t.Errorf("count of %+v: got %d, %v; want %d", tt.q, n, err, tt.want)
		}
	}
}

func search(t *testing.T, newDB New) {
	db := newDB(t)()
	commit(t, db, "n",
		put(control.KindRule, "Search-1", `{"path":"/a"}`), put(control.KindRule, "other", `{"path":"/SEARCH"}`), put(
			control.KindRule, "none", `{"path":"/Ä%_"}`),
		put(control.KindRule, "long",
			`{"id":"long","description":"say \"on\" or <off> \\ limits: none","when":{"header.x-plan":"gold","path":"/b"},"key":["user"],"limits":["5/s"],"on_limit":"drop"}`),
		put(control.KindRule, "short", `{"id":"short","limits":["6/s"],"unlimited":true}`),
		put(control.KindClient, "search", `{}`))
	for needle, want := range map[string][]string{
		"search": {"Search-1", "other"}, "SEARCH": {"Search-1", "other"}, "search-1": {"Search-1"}, "/a": {"Search-1"},
		"Ä": {"none"}, "%": {"none"}, "%_": {"none"}, "_": {"none"}, "' OR 1=1 --": nil, "*": nil, "[a-z]": nil, "..": nil, `"path"`: nil,
		// Field names are not searched, but names chosen by users are.
		"path": nil, "limits": {"long"}, "LIMIT": {"long"}, "on_limit": nil, "unlimited": nil, "description": nil, "when": nil, `"limits":`: nil,
		"header.x-plan": {"long"}, "x-plan": {"long"}, "gold": {"long"}, "user": {"long"}, "drop": {"long"}, "/s": {
			"long",
			"other", "short",
		}, "6/S": {"short"},
		"true": {"short"}, "long": {"long"}, "short": {"short"},
		`say "ON"`: {"long"}, "<off>": {"long"}, `\`: {"long"}, `\\`: nil, `n": `: nil,
	} {
		q := control.Query{Namespace: "n", Kind: control.KindRule, Search: needle, Limit: 10}
		list, err := db.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range list {
			got = append(got, o.ID)
		}
		checkEqual(t, "search for "+needle, got, want)
		if n, err := db.Count(t.Context(), q); err != nil || n != len(want) {
			t.Errorf("count of %s: got %d, %v; want %d", needle, n, err, len(want))
		}
	}
	page, err := db.List(t.Context(), control.Query{
		Namespace: "n", Kind: control.KindRule, Search: "search",
		AfterID: "Search-1", Limit: 1,
	})
	if err != nil || len(page) != 1 || page[0].ID != "other" {
		t.Errorf("the second page: got %q, %v; want other", brief(page), err)
	}
}

func oddNames(t *testing.T, newDB New) {
	db := newDB(t)()
	odd := []string{
		"a/b", "../etc/passwd", "Robert'); DROP TABLE objects;--", `"quoted"`, `back\slash`, "percent%20", "under_score%", "new\nline", "tab\t", "{brace}", "a:b:c", "*", "?",
		"[x]", "日本語", "e\u0301", "é", "\u200b", "💧", "a\x01b", "NULL", " ", strings.Repeat("x",
			control.MaxID), "$1", ":id", "@id",
	}
	bodies := []string{
		`{"s":"'; DROP TABLE ops; --"}`, `{"s":"\u0000\"\\"}`, `{"s":"💧<>&\u2028"}`, `[]`, `null`, `"x"`,
		`12345678901234567890.5`,
	}
	for i, id := range odd {
		body := bodies[i%len(bodies)]
		c := commit(t, db, id, put(control.KindRule, id, body), put(control.KindClient, id, body))
		if o := get(t, db, id, id); string(o.Body) != body || o.ID != id || o.Namespace != id {
			t.Errorf("%q: got %q %q with %s, want %s", id, o.Namespace, o.ID, o.Body, body)
		}
		changes, err := db.Log(t.Context(), control.LogQuery{Namespace: id, Kind: control.KindClient, ID: id, Limit: 10})
		if err != nil || len(changes) != 1 || changes[0].Revision != c.Revision || changes[0].Ops[1].ID != id {
			t.Errorf("%q: log: got %+v, %v; want revision %d", id, changes, err, c.Revision)
		}
		changed, at, err := db.Since(t.Context(), id, 0, 10)
		if err != nil || at != c.Revision || len(changed) != 2 {
			t.Errorf("%q: since: got %q at %d, %v", id, brief(changed), at, err)
		}
		old, err := db.At(t.Context(), id, control.KindRule, c.Revision)
		if err != nil || len(old) != 1 || old[0].ID != id {
			t.Errorf("%q: at: got %q, %v", id, brief(old), err)
		}
	}
	names, err := db.Namespaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(odd)
	checkEqual(t, "namespaces", names, odd)
	for _, id := range odd {
		commit(t, db, id, remove(control.KindRule, id), remove(control.KindClient, id))
		checkGone(t, db, id, control.KindRule, id)
	}
}

// noNames queries names that no object can have. The database must not return an error.
func noNames(t *testing.T, newDB New) {
	db := newDB(t)()
	commit(t, db, "n", put(control.KindRule, "a", `{"path":"/a"}`))
	for _, text := range []string{"\x00", "\xff", "a\x00", "a\xff", "\x00a", "\xffa", "n\x00a"} {
		checkGone(t, db, "n", control.KindRule, text)
		checkGone(t, db, text, control.KindRule, "a")
		for _, q := range []control.Query{
			{Namespace: "n", Kind: control.KindRule, Search: text, Limit: 10}, {
				Namespace: text, Kind: control.KindRule,
				Limit: 10,
			},
		} {
			if list, err := db.List(t.Context(), q); err != nil || len(list) > 0 {
				t.Errorf("list of %+v: got %q, %v; want none", q, brief(list), err)
			}
			if n, err := db.Count(t.Context(), q); err != nil || n != 0 {
				t.Errorf("count of %+v: got %d, %v; want 0", q, n, err)
			}
		}
		for _, q := range []control.LogQuery{
			{Namespace: "n", Kind: control.KindRule, ID: text, Limit: 10},
			{Namespace: text, Limit: 10},
		} {
			if changes, err := db.Log(t.Context(), q); err != nil || len(changes) > 0 {
				t.Errorf("log of %+v: got %q, %v; want none", q, revisions(changes), err)
			}
		}
		if _, err := db.GetState(t.Context(), "bucket", text); !errors.Is(err, control.ErrNotFound) {
			t.Errorf("state %q: got %v, want ErrNotFound", text, err)
		}
		if list, err := db.States(t.Context(), text, 10); err != nil || len(list) > 0 {
			t.Errorf("states of %q: got %d, %v; want none", text, len(list), err)
		}
		if err := db.DeleteState(t.Context(), "bucket", text); err != nil && !errors.Is(err, control.ErrNotFound) {
			t.Errorf("delete state %q: got %v", text, err)
		}
	}
}

// snapshots reads while another handle writes changes of several objects: each snapshot must be consistent.
func snapshots(t *testing.T, newDB New) {
	const objects = 30
	open := newDB(t)
	db, writer := open(), open()
	all := func(v int) []control.Op {
		var ops []control.Op
		for i := range objects {
			kind := []control.Kind{control.KindRule, control.KindClient, control.KindOverride}[i%3]
			ops = append(ops, put(kind, fmt.Sprintf("o%02d", i), fmt.Sprint(v)))
		}
		// One object is created and deleted in turn, so that objects are created and deleted during a snapshot.
		if v%2 == 1 {
			ops = append(ops, put(control.KindClient, "o05-odd", fmt.Sprint(v)))
		} else {
			ops = append(ops, remove(control.KindClient, "o05-odd"))
		}
		return ops
	}
	read := func() (revision int64, list []control.Object) {
		revision, err := db.Snapshot(t.Context(), "n", func(o *control.Object) error {
			list = append(list, *o)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return revision, list
	}
	if revision, list := read(); revision != 0 || len(list) != 0 {
		t.Errorf("empty database: got %q at %d", brief(list), revision)
	}
	commit(t, db, "n", append(all(1), put(control.KindToken, "t", `0`))...)
	commit(t, db, "other", put(control.KindRule, "x", `0`))
	commit(t, db, "n", put(control.KindToken, "t", `1`))
	revision, list := read()
	if revision != 1 {
		t.Errorf("got revision %d, want 1, the last change of an object for nodes", revision)
	}
	kinds := ""
	for _, o := range list {
		kinds += string(o.Kind)[:1]
	}
	if want := strings.Repeat("r", 10) + strings.Repeat("c", 11) + strings.Repeat("o", 10); kinds != want {
		t.Errorf("kinds: got %s, want %s", kinds, want)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for v := 2; ; v++ {
			select {
			case <-stop:
				return
			default:
			}
			c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: all(v)}
			if err := writer.Commit(t.Context(), &c); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	seen := map[string]bool{}
	deadline := time.Now().Add(2 * time.Second) // with the race detector, a database may be slow
	for i := 0; i < 3 || i < 50 && time.Now().Before(deadline); i++ {
		revision, list := read()
		v := string(list[0].Body)
		seen[v] = true
		ids := map[string]bool{}
		for _, o := range list {
			if string(o.Body) != v || o.Revision != revision || ids[o.ID] {
				t.Fatalf("%s %s: got %s at revision %d (duplicate: %t), want %s at revision %d", o.Kind, o.ID, o.Body,
					o.Revision, ids[o.ID], v, revision)
			}
			ids[o.ID] = true
		}
		odd := 0
		if v[len(v)-1]%2 == 1 {
			odd = 1
		}
		if len(list) != objects+odd {
			t.Fatalf("snapshot at %s: got %d objects, want %d", v, len(list), objects+odd)
		}
	}
	t.Logf("%d different snapshots", len(seen))
	stopped := errors.New("enough")
	if _, err := db.Snapshot(t.Context(), "n", func(*control.Object) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("got %v, want the error of each", err)
	}
}

// manyOps returns ops that create the given number of objects, sorted by ID.
func manyOps(kind control.Kind, count int) []control.Op {
	ops := make([]control.Op, 0, count)
	for i := range count {
		body := fmt.Appendf(nil, `{"id":"%s-%06d","key":["user"],"limits":["%d/s"],"when":{"path":"/search/%d/**"}}`, kind, i,
			i+1, i)
		ops = append(ops, control.Op{Kind: kind, ID: fmt.Sprintf("%s-%06d", kind, i), Base: control.Absent, Body: body})
	}
	return ops
}

func manyRules(t *testing.T, newDB New) {
	const count = 10_000 / racing.Slower
	db := newDB(t)()
	ops := manyOps(control.KindRule, count)
	commit(t, db, "n", ops...)
	if n, err := db.Count(t.Context(), control.Query{Namespace: "n", Kind: control.KindRule}); err != nil || n != count {
		t.Errorf("got %d, %v; want %d", n, err, count)
	}
	page, err := db.List(t.Context(), control.Query{
		Namespace: "n", Kind: control.KindRule, AfterID: ops[count/2-1].ID,
		Limit: 2,
	})
	if err != nil || len(page) != 2 || page[0].ID != ops[count/2].ID {
		t.Errorf("got %q, %v", brief(page), err)
	}
	if _, _, err := db.Since(t.Context(), "n", 0, count-1); !errors.Is(err, control.ErrPruned) {
		t.Errorf("Since with more changes than the limit: got %v, want %v", err, control.ErrPruned)
	}
	for i := range ops {
		ops[i].Base, ops[i].Body = 1, nil
	}
	commit(t, db, "n", ops...)
	if n, err := db.Count(t.Context(), control.Query{Namespace: "n", Kind: control.KindRule}); err != nil || n != 0 {
		t.Errorf("got %d, %v; want none", n, err)
	}
	old, err := db.At(t.Context(), "n", control.KindRule, 1)
	if err != nil || len(old) != count {
		t.Errorf("at 1: got %d, %v; want %d", len(old), err, count)
	}
}
