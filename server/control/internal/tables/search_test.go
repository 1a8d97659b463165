package tables_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// namesOf returns the names of a type's fields in bodies, recursively.
func namesOf(t reflect.Type, seen map[reflect.Type]bool) (names []string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("field")+f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(append(names, name), namesOf(f.Type, seen)...)
	}
	return names
}

func TestSearchIgnoresFieldNames(t *testing.T) {
	names := []string{"any", "all", "not"}
	for _, kind := range []any{rules.Rule{}, rules.Client{}, control.Override{}} {
		names = append(names, namesOf(reflect.TypeOf(kind), map[reflect.Type]bool{})...)
	}
	for kind := headgate.AttrIP; !kind.Named(); kind++ {
		names = append(names, kind.String())
	}
	if len(names) < 50 {
		t.Fatalf("got %d names, want those of all fields: %q", len(names), names)
	}
	for _, name := range names {
		if !slices.Contains(tables.SearchFor(name).Names, `"`+name+`":`) {
			t.Errorf("who looks for %q finds all that have a field of that name", name)
		}
	}
}

func TestSearchTextIsEncodedLikeBodies(t *testing.T) {
	for text, want := range map[string]string{"Ab": "ab", `"x"`: `\"x\"`, `a\b`: `a\\b`, "<&>": "<&>", "ÄÖ": "ÄÖ", "\t": `\t`, "": ""} {
		if got := tables.SearchFor(text).Body; got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
