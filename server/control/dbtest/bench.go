package dbtest

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/server/control"
)

// Bench measures the most frequent operations of a rules service on a database.
func Bench(b *testing.B, newDB New) {
	const rules, clients, page = 10_000, 100_000, 100
	b.Run("Apply10000Rules", func(b *testing.B) {
		db := newDB(b)()
		for i := 0; b.Loop(); i++ {
			ops := manyOps(control.KindRule, rules)
			for j := range ops {
				ops[j].Base = control.AnyRevision
			}
			commit(b, db, fmt.Sprintf("n%d", i%2), ops...)
		}
	})
	b.Run("Import100000Clients", func(b *testing.B) {
		db := newDB(b)()
		for i := 0; b.Loop(); i++ {
			for at, ops := 0, manyOps(control.KindClient, clients); at < len(ops); at += 10_000 {
				commit(b, db, fmt.Sprintf("n%d", i), ops[at:at+10_000]...)
			}
		}
	})
	b.Run("Of10000Rules", func(b *testing.B) {
		db := newDB(b)()
		ops := manyOps(control.KindRule, rules)
		commit(b, db, "n", ops...)
		list := func(b *testing.B, search string, want int) {
			for b.Loop() {
				got, err := db.List(b.Context(), control.Query{
					Namespace: "n", Kind: control.KindRule, Search: search,
					AfterID: ops[rules/2].ID, Limit: page,
				})
				if err != nil || len(got) != want {
					b.Fatalf("got %d, %v; want %d", len(got), err, want)
				}
			}
		}
		b.Run("List", func(b *testing.B) { list(b, "", page) })
		b.Run("Search", func(b *testing.B) { list(b, "search/9999/", 1) })
		b.Run("Get", func(b *testing.B) {
			for b.Loop() {
				get(b, db, "n", ops[rules/2].ID)
			}
		})
		b.Run("Change", func(b *testing.B) {
			for b.Loop() {
				commit(b, db, "n", put(control.KindRule, ops[rules/2].ID, `{}`))
			}
		})
		b.Run("Since", func(b *testing.B) {
			last, _, err := db.Revision(b.Context(), "n")
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, err := db.Since(b.Context(), "n", last-1, 1000); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Snapshot", func(b *testing.B) {
			for b.Loop() {
				if _, err := db.Snapshot(b.Context(), "n", func(*control.Object) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
