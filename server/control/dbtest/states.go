package dbtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

func states(t *testing.T, newDB New) {
	open := newDB(t)
	db, other := open(), open()
	// The database's clock may differ from this one, so both times are far from now.
	future, past := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC(), time.Now().Add(-time.Hour)
	put := func(bucket, id, body string, expires time.Time) {
		t.Helper()
		if err := db.PutState(t.Context(), control.State{
			Bucket: bucket, ID: id, Body: []byte(body),
			Expires: expires,
		}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(bucket string, limit int) string {
		t.Helper()
		found, err := other.States(t.Context(), bucket, limit)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range found {
			ids = append(ids, s.ID+"="+string(s.Body))
		}
		return strings.Join(ids, " ")
	}
	put("node", "b", `1`, future)
	put("node", "a/'x", `2`, future)
	put("node", "gone", `3`, past)
	put("nodes", "c", `4`, future)
	put("node", "b", `{"v":5}`, future)
	s, err := other.GetState(t.Context(), "node", "b")
	if err != nil || string(s.Body) != `{"v":5}` || !s.Expires.Equal(future) || s.Bucket != "node" || s.ID != "b" {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, id := range []string{"gone", "never"} {
		if s, err := db.GetState(t.Context(), "node", id); !errors.Is(err, control.ErrNotFound) {
			t.Errorf("%s: got %+v, %v; want %v", id, s, err, control.ErrNotFound)
		}
	}
	if got, want := list("node", 10), `a/'x=2 b={"v":5}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := list("node", 1), `a/'x=2`; got != want {
		t.Errorf("at most one: got %s, want %s", got, want)
	}
	// A state is no longer returned when it is put again with a past expiry, and returned again with a future one.
	put("node", "b", `6`, past)
	if got, want := list("node", 10), `a/'x=2`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	put("node", "b", `7`, future)
	if got, want := list("node", 10), `a/'x=2 b=7`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := other.DeleteState(t.Context(), "node", "b"); err != nil {
		t.Fatal(err)
	}
	if err := other.DeleteState(t.Context(), "node", "b"); err != nil {
		t.Errorf("delete a state that does not exist: %v", err)
	}
	if got, want := list("node", 10), `a/'x=2`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := db.PutState(t.Context(), control.State{Bucket: "node", Body: []byte(`1`)}); !errors.Is(err,
		control.ErrInvalid) {
		t.Errorf("without an id: got %v, want %v", err, control.ErrInvalid)
	}
	// States expire without another call.
	soon := time.Now().Add(50 * time.Millisecond)
	for i := range 20 {
		put("soon", fmt.Sprint(i), `1`, soon)
	}
	for deadline := time.Now().Add(waitTimeout); list("soon", 100) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v after the expiry: got states %s, want none", waitTimeout, list("soon", 100))
		}
	}
	checkRevision(t, db, "", 0, 0)
}
