package dbtest

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/headgate/headgate/server/control"
)

// clients checks that each method that reads objects returns a client as it was written.
func clients(t *testing.T, newDB New) {
	const body = `{"id":"acme","attributes":{"api_key":["k1","k2"],"plan":"gold","note":"<&> \"日本\"","seats":"12"},"limits":["500/s"]}`
	want, err := control.ParseClient([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Properties) != 3 {
		t.Fatalf("got %+v, want three properties", want)
	}
	db := newDB(t)()
	commit(t, db, "n", put(control.KindClient, "acme", `{"id":"acme"}`))
	commit(t, db, "n", put(control.KindClient, "acme", string(control.ClientBody(want))))
	var dump bytes.Buffer
	if err := db.Dump(t.Context(), &dump); err != nil {
		t.Fatal(err)
	}
	other := newDB(t)()
	if err := other.Restore(t.Context(), &dump, control.Absent); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(ctx context.Context) ([]control.Object, error){
		"Get": func(ctx context.Context) ([]control.Object, error) {
			return listOf(db.Get(ctx, "n", control.KindClient, "acme"))
		},
		"List": func(ctx context.Context) ([]control.Object, error) {
			return db.List(ctx, control.Query{Kind: control.KindClient, Search: "GOLD", Limit: 5})
		},
		"Snapshot": func(ctx context.Context) (list []control.Object, err error) {
			_, err = db.Snapshot(ctx, "n", func(o *control.Object) error { list = append(list, *o); return nil })
			return list, err
		},
		"Since": func(ctx context.Context) (list []control.Object, err error) {
			list, _, err = db.Since(ctx, "n", 1, 5)
			return list, err
		},
		"At": func(ctx context.Context) ([]control.Object, error) { return db.At(ctx, "n", control.KindClient, 2) },
		"Restore": func(ctx context.Context) ([]control.Object, error) {
			return listOf(other.Get(ctx, "n", control.KindClient, "acme"))
		},
	} {
		list, err := read(t.Context())
		if err != nil || len(list) != 1 {
			t.Errorf("%s: got %d objects, %v; want one", name, len(list), err)
			continue
		}
		if got, err := control.ParseClient(list[0].Body); err != nil || !reflect.DeepEqual(control.ClientBody(got),
			control.ClientBody(want)) {
			t.Errorf("%s: got %s, %v; want %s", name, list[0].Body, err, control.ClientBody(want))
		}
	}
}

func listOf(o *control.Object, err error) ([]control.Object, error) {
	if err != nil {
		return nil, err
	}
	return []control.Object{*o}, nil
}
