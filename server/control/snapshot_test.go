package control_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/control"
)

// written returns an encoded snapshot of some objects.
func written(t testing.TB, objects int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := control.NewWriter(&b, control.Header{Namespace: "shop", Revision: 42, Since: 40})
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		item := control.Item{Kind: control.KindClient, ID: fmt.Sprintf("c%d<&>", i), Revision: 41, Body: []byte(`{"id":"<&>"}`)}
		if i%3 == 2 {
			item = control.Item{Kind: control.KindRule, ID: fmt.Sprint(i), Deleted: true}
		}
		if err := w.Write(&item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll returns the objects of a snapshot as texts.
func readAll(data []byte) ([]string, error) {
	r, err := control.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	list := []string{fmt.Sprintf("%s %d since %d", r.Header.Namespace, r.Header.Revision, r.Header.Since)}
	for {
		item, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%s %s %d %s %t", item.Kind, item.ID, item.Revision, item.Body, item.Deleted))
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	got, err := readAll(written(t, 3))
	want := []string{"shop 42 since 40", `client c0<&> 41 {"id":"<&>"} false`, `client c1<&> 41 {"id":"<&>"} false`, "rule 2 0  true"}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if got, err := readAll(written(t, 0)); err != nil || len(got) != 1 {
		t.Errorf("of nothing: got %q, %v", got, err)
	}
}

func TestIncompleteSnapshotIsRefused(t *testing.T) {
	whole := written(t, 5)
	for n := range len(whole) - 1 {
		if got, err := readAll(whole[:n]); !errors.Is(err, control.ErrBroken) {
			t.Fatalf("the first %d of %d bytes: got %q, %v; want %v", n, len(whole), got, err, control.ErrBroken)
		}
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for what, text := range map[string]string{
		"a line is missing":   strings.Join(append(append([]string(nil), lines[:2]...), lines[3:]...), ""),
		"a line stands twice": strings.Join(append(append([]string(nil), lines[:2]...), lines[1:]...), ""),
		"another revision":    strings.Replace(string(whole), `"revision":42`, `"revision":43`, 1),
		"another body":        strings.Replace(string(whole), `{"id":"<&>"}`, `{"id":"<&x"}`, 1),
		"a long line":         lines[0] + `{"kind":"rule","id":"` + strings.Repeat("x", control.MaxLine) + `"}` + "\n",
		"no JSON":             "hello\n",
	} {
		if got, err := readAll([]byte(text)); !errors.Is(err, control.ErrBroken) {
			t.Errorf("%s: got %q, %v; want %v", what, got, err, control.ErrBroken)
		}
	}
}

func TestLargestBodyFitsALine(t *testing.T) {
	id := strings.Repeat("\x01", control.MaxID) // JSON encodes each byte in six
	body := []byte(`"` + strings.Repeat("x", control.MaxBody-2) + `"`)
	c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{{Kind: control.KindOverride, ID: id, Base: control.AnyRevision, Body: body}}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := control.NewWriter(&b, control.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&control.Item{Kind: control.KindOverride, ID: id, Revision: 1 << 62, Body: body}); err != nil {
		t.Error(err)
	}
	c.Ops[0].Body = []byte(`"` + strings.Repeat("x", control.MaxBody-1) + `"`)
	if err := c.Validate(); !errors.Is(err, control.ErrInvalid) {
		t.Errorf("a larger one: got %v, want %v", err, control.ErrInvalid)
	}
}

func TestConflictNamesItsObject(t *testing.T) {
	for want, c := range map[string]control.Conflict{
		"rule a is at revision 3, not 2":         {Kind: control.KindRule, ID: "a", Want: 2, Have: 3},
		"rule a exists already, at revision 3":   {Kind: control.KindRule, ID: "a", Want: control.Absent, Have: 3},
		"rule a does not exist":                  {Kind: control.KindRule, ID: "a", Want: 2},
		"namespace shop is at revision 3, not 2": {Namespace: "shop", Want: 2, Have: 3},
	} {
		if got := c.Error(); got != want || !errors.Is(&c, control.ErrConflict) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readAll(data)
		if err != nil && !errors.Is(err, control.ErrBroken) {
			t.Errorf("got %q, %v; want %v", got, err, control.ErrBroken)
		}
	})
}
